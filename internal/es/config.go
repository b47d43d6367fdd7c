package es

import "time"

// Config says how to reach and enter a cluster. Secrets arrive as values; where they were read from is the
// configuration's business.
type Config struct {
	// Addresses are the seeds, "https://host:9200", with or without a path prefix. Reads move on to the next one when
	// one cannot be reached; a write goes to the one that answered last. Nothing is discovered from them: publish
	// addresses are often unroutable from where the daemon stands.
	Addresses []string

	Username, Password string // basic authentication
	APIKey             string // what follows "ApiKey " in the Authorization header

	CAFile                        string // PEM, instead of the system's authorities
	ClientCertFile, ClientKeyFile string // PEM, both or neither
	InsecureSkipVerify            bool

	AWS AWS

	Timeout     time.Duration // for one request and its whole answer; 0 means 30 s
	ReadRetries int           // further rounds of a failed read; 0 means 2, negative means none
}

// AWS switches request signing (SigV4) on when Region is set. Credentials come from the usual places of the AWS SDK:
// environment, shared files, container and instance roles.
type AWS struct {
	Region  string
	Service string // empty means "es"
}

// The defaults of Config.
const (
	defaultTimeout     = 30 * time.Second
	defaultReadRetries = 2
)
