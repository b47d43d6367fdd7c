// Package version says which build this is.
package version

import (
	"runtime"
	"runtime/debug"
)

// Set at build time by -ldflags -X.
var (
	number = "0.0.0-dev"
	commit = ""
)

// Number is the release, "0.1.0".
func Number() string { return number }

// Commit is the short commit the binary was built from, "unknown" where it was not recorded.
func Commit() string {
	if commit != "" {
		return commit
	}
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, setting := range info.Settings {
			if setting.Key == "vcs.revision" && len(setting.Value) >= 12 {
				return setting.Value[:12]
			}
		}
	}
	return "unknown"
}

// Go is the toolchain, "go1.26.8".
func Go() string { return runtime.Version() }
