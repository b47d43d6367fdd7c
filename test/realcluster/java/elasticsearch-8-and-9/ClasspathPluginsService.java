package org.elasticsearch.plugins;

import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.elasticsearch.common.settings.Settings;

/**
 * Takes plugins from the class path instead of the plugins folder. It sits in the server's package because what it
 * needs is package-private there.
 */
public final class ClasspathPluginsService extends PluginsService {
    private final List<LoadedPlugin> plugins;

    public ClasspathPluginsService(Settings settings, Path config, List<Class<? extends Plugin>> classes) {
        super(settings, config, PluginsLoader.createPluginsLoader(Set.of(), Set.of(), Map.of(), false));
        List<LoadedPlugin> loaded = new ArrayList<>();
        for (Class<? extends Plugin> type : classes) {
            Plugin plugin = loadPlugin(type, settings, config);
            loaded.add(new LoadedPlugin(Descriptors.of(type), plugin, getClass().getClassLoader()));
        }
        loadExtensions(loaded);
        plugins = List.copyOf(loaded);
    }

    /** The super constructor asks before the field is set. */
    @Override
    protected List<LoadedPlugin> plugins() {
        return plugins == null ? List.of() : plugins;
    }
}
