package realcluster;

import java.nio.file.Path;
import java.util.List;
import java.util.Map;
import org.opensearch.Version;
import org.opensearch.cluster.service.ClusterService;
import org.opensearch.common.settings.Settings;
import org.opensearch.env.Environment;
import org.opensearch.node.InternalSettingsPreparer;
import org.opensearch.node.Node;
import org.opensearch.plugins.PluginInfo;
import org.opensearch.transport.Netty4ModulePlugin;

/** A node with the network transport as its only plugin, taken from the class path. */
final class Product extends Node implements Server {
    private Product(Environment environment) {
        super(environment, List.of(plugin(Netty4ModulePlugin.class.getName())), true);
    }

    private static PluginInfo plugin(String className) {
        return new PluginInfo(className, "network", "NA", Version.CURRENT, "21", className, null, List.of(), false);
    }

    static Server open(Path home, String name) {
        Settings settings = Settings.builder().put("path.home", home).build();
        return new Product(InternalSettingsPreparer.prepareEnvironment(settings, Map.of(), home.resolve("config"), () -> name));
    }

    /** Sets process-wide logging state, at which the second node of a JVM would fail. */
    @Override
    protected void configureNodeAndClusterIdStateListener(ClusterService clusterService) {}
}
