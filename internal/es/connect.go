package es

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"
	"sync"
	"time"

	awsconfig "github.com/aws/aws-sdk-go-v2/config"
	"github.com/opensearch-project/opensearch-go/v4/opensearchtransport"
	"github.com/opensearch-project/opensearch-go/v4/signer"
	"github.com/opensearch-project/opensearch-go/v4/signer/awsv2"

	"github.com/shardonnay/shardonnay/internal/cluster"
)

const (
	dialTimeout   = 10 * time.Second // for a connection or a TLS handshake
	idleTimeout   = 60 * time.Second // an unused connection is closed before most firewalls forget it
	connections   = 8                // to one seed: enough for a few reads side by side
	opaqueID      = "shardonnay"     // names us in the cluster's task list, slow and deprecation logs
	environPrefix = "OPENSEARCH_"
)

// connect makes a transport for each seed.
func (c *Client) connect(config Config) error {
	invalid := func(what string, err error, cure string) error {
		return &cluster.Error{Class: cluster.Invalid, Op: "set up the connection to", What: what, Err: err, Hint: cure}
	}
	if len(config.Addresses) == 0 {
		return invalid("the cluster", errors.New("no address is given"), "Give at least one, like https://host:9200.")
	}
	secured, err := tlsConfig(config)
	if err != nil {
		return err
	}
	signs, err := signing(config.AWS)
	if err != nil {
		return err
	}
	shared := &http.Transport{
		Proxy:               http.ProxyFromEnvironment,
		DialContext:         (&net.Dialer{Timeout: min(dialTimeout, c.timeout)}).DialContext,
		TLSClientConfig:     secured,
		TLSHandshakeTimeout: min(dialTimeout, c.timeout),
		MaxIdleConnsPerHost: connections,
		MaxConnsPerHost:     connections,
		IdleConnTimeout:     idleTimeout,
		DisableCompression:  true, // we unpack ourselves
		// HTTP/1.1 only: neither product needs 2, and its transport repeats requests on its own where a server resets
		// streams.
		ForceAttemptHTTP2: false,
	}
	for _, address := range config.Addresses {
		at, err := url.Parse(address)
		if err != nil || at.Host == "" || at.Scheme != "http" && at.Scheme != "https" {
			return invalid(redactedAddress(address), errors.New("it is not an address"), "Write it like https://host:9200.")
		}
		username, password := config.Username, config.Password
		if at.User != nil {
			username = at.User.Username()
			password, _ = at.User.Password()
			at.User = nil
		}
		at.RawQuery, at.Fragment = "", ""
		header := http.Header{"X-Opaque-Id": {opaqueID}}
		ways := 0
		if username != "" {
			header.Set("Authorization", basicAuth(username, password))
			c.secrets = append(c.secrets, basicAuth(username, password)[len("Basic "):])
			if password != "" {
				c.secrets = append(c.secrets, password, url.QueryEscape(password))
			}
			ways++
		}
		if config.APIKey != "" {
			header.Set("Authorization", "ApiKey "+config.APIKey)
			c.secrets = append(c.secrets, config.APIKey)
			if plain, err := base64.StdEncoding.DecodeString(config.APIKey); err == nil {
				if _, key, ok := strings.Cut(string(plain), ":"); ok && key != "" {
					c.secrets = append(c.secrets, key)
				}
			}
			ways++
		}
		if signs != nil {
			ways++
		}
		if ways > 1 {
			return invalid(at.Host, errors.New("more than one way to log in is given"),
				"Keep one of user name and password, API key, and AWS signing.")
		}
		transport, err := newTransport(at, header, shared, signs)
		if err != nil {
			return invalid(at.Host, err, "")
		}
		c.seeds = append(c.seeds, &seed{url: at, transport: transport})
	}
	return nil
}

// newTransport is opensearch-go's transport reduced to carrying one request to one address: every knob is set, and what
// it does on its own initiative is off.
func newTransport(to *url.URL, header http.Header, over *http.Transport, signs signer.Signer) (*opensearchtransport.Client, error) {
	var transport *opensearchtransport.Client
	err := withoutEnvironment(environPrefix, func() (err error) {
		transport, err = opensearchtransport.New(opensearchtransport.Config{
			URLs:      []*url.URL{to},
			Header:    header,
			Signer:    signs,
			Transport: over,

			// Repeating is ours: it needs to know a read from a write.
			DisableRetry:         true,
			MaxRetries:           1, // 0 would mean the library's own default; retries are off above
			RetryOnStatus:        []int{},
			EnableRetryOnTimeout: false,
			RequestTimeout:       0, // the context carries it

			CompressRequestBody: false, // some proxies and services do not take it
			EnableMetrics:       false,
			EnableDebugLogger:   false,

			// No discovery, no probes, no polling: nothing is sent that we did not ask for.
			DiscoverNodesInterval:   0,
			HealthCheck:             opensearchtransport.NoOpHealthCheck,
			MaxRetryClusterHealth:   -1,
			NodeStatsInterval:       -1,
			ActiveListCap:           -1,
			StandbyRotationInterval: -1,
			SkipConnectionShuffle:   true,
		})
		return err
	})
	return transport, err
}

var environment sync.Mutex

// withoutEnvironment runs f while no variable of that prefix is set. opensearch-go lets OPENSEARCH_GO_* win over what a
// program configures: a router that spreads requests, time limits, polling. A daemon that moves data takes its orders
// from its own configuration alone.
func withoutEnvironment(prefix string, f func() error) error {
	environment.Lock()
	defer environment.Unlock()
	for _, pair := range os.Environ() {
		if name, value, _ := strings.Cut(pair, "="); strings.HasPrefix(name, prefix) {
			if err := os.Unsetenv(name); err != nil {
				return err
			}
			defer func() { _ = os.Setenv(name, value) }()
		}
	}
	return f()
}

// tlsConfig reads the certificate files.
func tlsConfig(config Config) (*tls.Config, error) {
	broken := func(file string, err error, cure string) error {
		return &cluster.Error{Class: cluster.Invalid, Op: "read", What: file, Err: err, Hint: cure}
	}
	secured := &tls.Config{MinVersion: tls.VersionTLS12, InsecureSkipVerify: config.InsecureSkipVerify} //nolint:gosec // the user's explicit choice
	if config.CAFile != "" {
		pem, err := os.ReadFile(config.CAFile)
		if err != nil {
			return nil, broken(config.CAFile, pathless(err), "ca_file must name a readable file of certificates in PEM form.")
		}
		secured.RootCAs = x509.NewCertPool()
		if !secured.RootCAs.AppendCertsFromPEM(pem) {
			return nil, broken(config.CAFile, errors.New("there is no certificate in it"), "ca_file must hold certificates in PEM form.")
		}
	}
	if (config.ClientCertFile == "") != (config.ClientKeyFile == "") {
		return nil, broken(config.ClientCertFile+config.ClientKeyFile, errors.New("certificate and key belong together"),
			"Set both client_cert_file and client_key_file.")
	}
	if config.ClientCertFile != "" {
		load := func() (*tls.Certificate, error) {
			pair, err := tls.LoadX509KeyPair(config.ClientCertFile, config.ClientKeyFile)
			return &pair, err
		}
		if _, err := load(); err != nil {
			return nil, broken(config.ClientCertFile, pathless(err),
				"client_cert_file and client_key_file must be readable, in PEM form, and belong to each other.")
		}
		// Read at each handshake: a renewed certificate is used without a restart.
		secured.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return load() }
	}
	return secured, nil
}

// pathless drops the file name that the message already has.
func pathless(err error) error {
	if path, ok := errors.AsType[*os.PathError](err); ok {
		return path.Err
	}
	return err
}

// signing makes the signer of requests to AWS, nil where none is wanted.
func signing(aws AWS) (signer.Signer, error) {
	if aws.Region == "" {
		return nil, nil
	}
	service := aws.Service
	if service == "" {
		service = "es"
	}
	broken := func(err error) error {
		return &cluster.Error{
			Class: cluster.Invalid, Op: "set up AWS signing for", What: aws.Region, Err: err,
			Hint: "Check the region and the AWS configuration files.",
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), dialTimeout)
	defer cancel()
	loaded, err := awsconfig.LoadDefaultConfig(ctx, awsconfig.WithRegion(aws.Region))
	if err != nil {
		return nil, broken(err)
	}
	signs, err := awsv2.NewSignerWithService(loaded, service)
	if err != nil {
		return nil, broken(err)
	}
	return signs, nil
}

// redactedAddress is an address that could not be parsed, without what may be a password in it.
func redactedAddress(address string) string {
	if at := strings.LastIndex(address, "@"); at >= 0 {
		return "***" + address[at:]
	}
	return fmt.Sprintf("%q", address)
}
