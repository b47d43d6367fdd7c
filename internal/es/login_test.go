package es

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"io"
	"log"
	"math/big"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/shardonnay/shardonnay/internal/cluster"
)

var quiet = log.New(io.Discard, "", 0)

const green = `{"status":"green"}`

func TestLogin(t *testing.T) {
	for _, test := range []struct {
		name   string
		config Config
		inURL  string
		want   string
	}{
		{"nothing", Config{}, "", ""},
		{"basic", Config{Username: "joe", Password: "s3cret"}, "", "Basic am9lOnMzY3JldA=="},
		{"basic without a password", Config{Username: "joe"}, "", "Basic am9lOg=="},
		{"basic in the address", Config{}, "joe:s3cret@", "Basic am9lOnMzY3JldA=="},
		{"key", Config{APIKey: "aWQ6a2V5"}, "", "ApiKey aWQ6a2V5"},
	} {
		t.Run(test.name, func(t *testing.T) {
			var got string
			s := server(t, func(w http.ResponseWriter, r *http.Request) {
				got = r.Header.Get("Authorization")
				says(200, asJSON, green)(w, r)
			})
			c := quick(t, test.config, strings.Replace(s.URL, "http://", "http://"+test.inURL, 1))
			if _, err := c.Health(t.Context()); err != nil {
				t.Fatal(err)
			}
			if got != test.want {
				t.Errorf("Authorization is %q, want %q", got, test.want)
			}
		})
	}
}

// TestSecretsStayOut lets the other side echo whatever it was told, as debugging proxies do.
func TestSecretsStayOut(t *testing.T) {
	echo := server(t, func(w http.ResponseWriter, r *http.Request) {
		says(400, asJSON, `{"error":"what is `+r.Header.Get("Authorization")+` for? s3cr%2Fet s3cr/et k3y"}`)(w, r)
	})
	gone := httptest.NewServer(http.NotFoundHandler())
	gone.Close()
	for _, test := range []struct {
		config  Config
		address string
	}{
		{Config{Username: "joe", Password: "s3cr/et"}, echo.URL},
		{Config{}, strings.Replace(echo.URL, "http://", "http://joe:s3cr%2Fet@", 1)},
		{Config{}, strings.Replace(gone.URL, "http://", "http://joe:s3cr%2Fet@", 1)},
		{Config{APIKey: "aWQ6azN5"}, echo.URL}, // id:k3y
	} {
		test.config.ReadRetries = -1
		_, err := quick(t, test.config, test.address).Connect(t.Context())
		if err == nil {
			t.Fatal("no error")
		}
		t.Log(err)
		secrets := []string{"aWQ6azN5", "am9lOnMzY3IvZXQ="}
		if test.config.APIKey == "" {
			secrets = append(secrets, "s3cr/et", "s3cr%2Fet")
		} else {
			secrets = append(secrets, "k3y")
		}
		for _, secret := range secrets {
			if strings.Contains(err.Error(), secret) {
				t.Errorf("%q is in: %v", secret, err)
			}
		}
	}
	for _, address := range []string{"joe:s3cret@host:9200", "://joe:s3cret@host", "http://joe:s3cret%zz@host"} {
		_, err := New(Config{Addresses: []string{address}})
		checkError(t, err, cluster.Invalid, "like https://host:9200")
		if strings.Contains(err.Error(), "s3cret") {
			t.Errorf("a password is in: %v", err)
		}
	}
}

func TestImpossibleConfiguration(t *testing.T) {
	dir := t.TempDir()
	notPEM := filepath.Join(dir, "not.pem")
	if err := os.WriteFile(notPEM, []byte("hello"), 0o600); err != nil {
		t.Fatal(err)
	}
	const at = "https://127.0.0.1:9200"
	for _, test := range []struct {
		name   string
		config Config
		words  []string
	}{
		{"no address", Config{}, []string{"no address is given"}},
		{"address without a scheme", Config{Addresses: []string{"host:9200"}}, []string{`"host:9200"`, "https://host:9200"}},
		{"two ways in", Config{Addresses: []string{at}, APIKey: "a", Username: "b"}, []string{"more than one way to log in"}},
		{"CA not there", Config{Addresses: []string{at}, CAFile: dir + "/ca.pem"}, []string{"/ca.pem", "no such file"}},
		{"CA not PEM", Config{Addresses: []string{at}, CAFile: notPEM}, []string{"not.pem", "no certificate in it"}},
		{"half a pair", Config{Addresses: []string{at}, ClientCertFile: notPEM}, []string{"not.pem", "belong together"}},
		{"pair not PEM", Config{Addresses: []string{at}, ClientCertFile: notPEM, ClientKeyFile: notPEM}, []string{"not.pem", "in PEM form"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			_, err := New(test.config)
			checkError(t, err, cluster.Invalid, test.words...)
		})
	}
}

// TestCertificates uses an authority of its own, as self-managed clusters do, and a cluster that wants to see a
// certificate of its clients.
func TestCertificates(t *testing.T) {
	dir := t.TempDir()
	ca := issue(t, dir, "ca", nil, "shardonnay test authority")
	other := issue(t, dir, "other", nil, "somebody else")
	serverPair := issue(t, dir, "server", ca, "127.0.0.1")
	clientPair := issue(t, dir, "client", ca, "shardonnay")
	start := func(t *testing.T, pair *pair, mutual bool) string {
		s := httptest.NewUnstartedServer(says(200, asJSON, green))
		s.Config.ErrorLog = quiet
		s.TLS = &tls.Config{Certificates: []tls.Certificate{pair.tls(t)}}
		if mutual {
			s.TLS.ClientAuth = tls.RequireAndVerifyClientCert
			s.TLS.ClientCAs = x509.NewCertPool()
			s.TLS.ClientCAs.AddCert(ca.cert)
		}
		s.StartTLS()
		t.Cleanup(s.Close)
		return s.URL
	}
	health := func(t *testing.T, config Config, at string) error {
		_, err := quick(t, config, at).Health(t.Context())
		return err
	}
	t.Run("authority given", func(t *testing.T) {
		if err := health(t, Config{CAFile: ca.certFile}, start(t, serverPair, false)); err != nil {
			t.Error(err)
		}
	})
	t.Run("authority not known", func(t *testing.T) {
		checkError(t, health(t, Config{}, start(t, serverPair, false)), cluster.Refused, "unknown authority", "ca_file")
	})
	t.Run("another authority", func(t *testing.T) {
		checkError(t, health(t, Config{CAFile: other.certFile}, start(t, serverPair, false)), cluster.Refused, "unknown authority")
	})
	t.Run("certificate of another host", func(t *testing.T) {
		at := strings.Replace(start(t, serverPair, false), "127.0.0.1", "localhost", 1)
		checkError(t, health(t, Config{CAFile: ca.certFile}, at), cluster.Refused, "localhost", "an address that the certificate names")
	})
	t.Run("certificate run out", func(t *testing.T) {
		old := issueUntil(t, dir, "old", ca, "127.0.0.1", time.Now().Add(-time.Hour))
		checkError(t, health(t, Config{CAFile: ca.certFile}, start(t, old, false)), cluster.Refused, "expired", "Renew")
	})
	t.Run("verification switched off", func(t *testing.T) {
		if err := health(t, Config{InsecureSkipVerify: true}, start(t, serverPair, false)); err != nil {
			t.Error(err)
		}
	})
	t.Run("client certificate", func(t *testing.T) {
		config := Config{CAFile: ca.certFile, ClientCertFile: clientPair.certFile, ClientKeyFile: clientPair.keyFile}
		if err := health(t, config, start(t, serverPair, true)); err != nil {
			t.Error(err)
		}
	})
	t.Run("client certificate missing", func(t *testing.T) {
		checkError(t, health(t, Config{CAFile: ca.certFile}, start(t, serverPair, true)), cluster.Refused, "tls", "client_cert_file")
	})
}

type pair struct {
	cert              *x509.Certificate
	key               *ecdsa.PrivateKey
	certFile, keyFile string
}

func (p *pair) tls(t *testing.T) tls.Certificate {
	t.Helper()
	both, err := tls.LoadX509KeyPair(p.certFile, p.keyFile)
	if err != nil {
		t.Fatal(err)
	}
	return both
}

func issue(t *testing.T, dir, file string, by *pair, name string) *pair {
	return issueUntil(t, dir, file, by, name, time.Now().Add(time.Hour))
}

// issueUntil makes a certificate, an authority's where nobody signs it.
func issueUntil(t *testing.T, dir, file string, by *pair, name string, until time.Time) *pair {
	t.Helper()
	check := func(err error) {
		if err != nil {
			t.Helper()
			t.Fatal(err)
		}
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	check(err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: name},
		NotBefore: until.Add(-2 * time.Hour), NotAfter: until, KeyUsage: x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	if by == nil {
		template.IsCA, template.BasicConstraintsValid = true, true
		template.KeyUsage |= x509.KeyUsageCertSign
		by = &pair{cert: template, key: key}
	} else if name == "127.0.0.1" {
		template.IPAddresses = append(template.IPAddresses, []byte{127, 0, 0, 1})
	}
	der, err := x509.CreateCertificate(rand.Reader, template, by.cert, &key.PublicKey, by.key)
	check(err)
	cert, err := x509.ParseCertificate(der)
	check(err)
	keyDER, err := x509.MarshalECPrivateKey(key)
	check(err)
	p := &pair{cert, key, filepath.Join(dir, file+".pem"), filepath.Join(dir, file+".key")}
	check(os.WriteFile(p.certFile, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o600))
	check(os.WriteFile(p.keyFile, pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: keyDER}), 0o600))
	return p
}

// TestSigning checks the shape of what AWS wants to see; whether it likes the signature only AWS can say.
func TestSigning(t *testing.T) {
	t.Setenv("AWS_ACCESS_KEY_ID", "AKIDEXAMPLE")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "wJalrXUtnFEMI")
	t.Setenv("AWS_SESSION_TOKEN", "token")
	t.Setenv("AWS_EC2_METADATA_DISABLED", "true")
	t.Setenv("AWS_CONFIG_FILE", filepath.Join(t.TempDir(), "none"))
	t.Setenv("AWS_SHARED_CREDENTIALS_FILE", filepath.Join(t.TempDir(), "none"))
	var seen http.Header
	s := server(t, func(w http.ResponseWriter, r *http.Request) {
		seen = r.Header.Clone()
		says(200, asJSON, green)(w, r)
	})
	for _, test := range []struct{ service, scope string }{{"", "es"}, {"aoss", "aoss"}} {
		c := quick(t, Config{AWS: AWS{Region: "eu-central-1", Service: test.service}}, s.URL)
		if err := c.PutSettings(t.Context(), map[string]any{"a": 1}); err != nil {
			t.Fatal(err)
		}
		shape := regexp.MustCompile(`^AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/\d{8}/eu-central-1/` + test.scope +
			`/aws4_request, SignedHeaders=[a-z0-9;-]*host[a-z0-9;-]*, Signature=[0-9a-f]{64}$`)
		if got := seen.Get("Authorization"); !shape.MatchString(got) {
			t.Errorf("Authorization is %q", got)
		}
		if seen.Get("X-Amz-Date") == "" || seen.Get("X-Amz-Security-Token") != "token" || len(seen.Get("X-Amz-Content-Sha256")) != 64 {
			t.Errorf("headers are %v", seen)
		}
	}
	t.Setenv("AWS_ACCESS_KEY_ID", "")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "")
	t.Setenv("AWS_SESSION_TOKEN", "")
	c := quick(t, Config{AWS: AWS{Region: "eu-central-1"}}, s.URL)
	err := c.PutSettings(t.Context(), map[string]any{"a": 1})
	checkError(t, err, cluster.Refused, "AWS credentials can be found")
	if OutcomeUnknown(err) {
		t.Error("nothing was sent, and the outcome is unknown")
	}
}
