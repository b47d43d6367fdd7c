package realcluster;

import java.nio.file.Path;
import java.util.Collections;
import java.util.List;
import org.opensearch.cluster.service.ClusterService;
import org.opensearch.common.settings.Settings;
import org.opensearch.env.Environment;
import org.opensearch.node.InternalSettingsPreparer;
import org.opensearch.node.Node;
import org.opensearch.security.OpenSearchSecurityPlugin;
import org.opensearch.transport.Netty4Plugin;

/** A node with the network transport and the security plugin, both taken from the class path. */
final class Product extends Node implements Server {
    private Product(Environment environment) {
        super(environment, List.of(Netty4Plugin.class, OpenSearchSecurityPlugin.class), true);
    }

    static Server open(Path home, String name) {
        Settings settings = Settings.builder().put("path.home", home).build();
        return new Product(
                InternalSettingsPreparer.prepareEnvironment(settings, Collections.emptyMap(), home.resolve("config"), () -> name));
    }

    /** Sets process-wide logging state, at which the second node of a JVM would fail. */
    @Override
    protected void configureNodeAndClusterIdStateListener(ClusterService clusterService) {}
}
