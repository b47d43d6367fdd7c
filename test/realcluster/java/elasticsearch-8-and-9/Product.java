package realcluster;

import java.nio.file.Path;
import java.util.List;
import java.util.Map;
import org.apache.logging.log4j.Level;
import org.apache.logging.log4j.LogManager;
import org.apache.logging.log4j.core.config.Configurator;
import org.elasticsearch.common.logging.HeaderWarningAppender;
import org.elasticsearch.common.logging.LogConfigurator;
import org.elasticsearch.common.logging.Loggers;
import org.elasticsearch.common.settings.Settings;
import org.elasticsearch.env.Environment;
import org.elasticsearch.node.InternalSettingsPreparer;
import org.elasticsearch.node.LocalNode;
import org.elasticsearch.transport.netty4.Netty4Plugin;

/** Nodes with the network transport and {@code GET /} as their plugins. */
final class Product {
    private static final String DEPRECATION = "org.elasticsearch.deprecation";

    static {
        // Before any other class of the server: its static loggers need it.
        LogConfigurator.configureESLogging();
        LogConfigurator.setNodeName("realcluster");
        // Without this appender no answer ever carries a Warning header.
        HeaderWarningAppender warnings = HeaderWarningAppender.createAppender("header_warning", null);
        warnings.start();
        Configurator.setLevel(DEPRECATION, Level.WARN);
        Loggers.addAppender(LogManager.getLogger(DEPRECATION), warnings);
    }

    private Product() {}

    static Server open(Path home, String name) {
        Settings settings = Settings.builder().put("path.home", home).build();
        return new ServerNode(InternalSettingsPreparer.prepareEnvironment(settings, Map.of(), home.resolve("config"), () -> name));
    }

    /** A class of its own, so that the above has run before its super classes are initialised. */
    private static final class ServerNode extends LocalNode implements Server {
        ServerNode(Environment environment) {
            super(environment, List.of(Netty4Plugin.class, RootPlugin.class));
        }
    }
}
