package org.elasticsearch.plugins;

import java.util.List;
import org.elasticsearch.plugins.PluginDescriptor.DeploymentTarget;

/** Describes a plugin that is a class on the class path; the constructor differs between the versions. */
final class Descriptors {
    private Descriptors() {}

    static PluginDescriptor of(Class<? extends Plugin> type) {
        String name = type.getName();
        return new PluginDescriptor(name, name, "NA", "NA", "17", name, null, List.of(), false, false, false, false, DeploymentTarget.ALL);
    }
}
