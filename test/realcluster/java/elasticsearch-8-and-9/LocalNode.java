package org.elasticsearch.node;

import java.util.List;
import org.elasticsearch.cluster.service.ClusterService;
import org.elasticsearch.env.Environment;
import org.elasticsearch.plugins.ClasspathPluginsService;
import org.elasticsearch.plugins.Plugin;
import org.elasticsearch.plugins.PluginsLoader;
import org.elasticsearch.plugins.PluginsService;

/** A node with plugins from the class path. In the server's package because node construction is package-private. */
public class LocalNode extends Node {
    public LocalNode(Environment environment, List<Class<? extends Plugin>> plugins) {
        super(NodeConstruction.prepareConstruction(environment, null, new NodeServiceProvider() {
            @Override
            PluginsService newPluginService(Environment env, PluginsLoader ignored) {
                return new ClasspathPluginsService(env.settings(), env.configDir(), plugins);
            }
        }, true));
    }

    /** Sets process-wide logging state, at which the second node of a JVM would fail. */
    @Override
    protected void configureNodeAndClusterIdStateListener(ClusterService clusterService) {}
}
