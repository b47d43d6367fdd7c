// Package config turns a YAML file, SHARDONNAY_* variables and command-line flags into one typed Config that cannot be
// wrong, or into one message that names every fault.
//
// Viper begins and ends here: it decides which of file, environment and flag wins. Everything after that is plain typed
// values. The package also watches the file and what it refers to, so that a change takes effect without a restart. It
// knows the packages whose options it fills (es, model); none of them knows it.
package config
