package realcluster

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"
)

// Administrator may do everything in a secured cluster; it comes with the plugin.
const (
	Administrator         = "admin"
	AdministratorPassword = "admin"
)

// Names of the files of a node's certificate, below its config folder.
const (
	caFile   = "ca.pem"
	certFile = "node.pem"
	keyFile  = "node.key"
)

// securitySettings go into the yml file of every node of a secured cluster: one certificate for all of them.
var securitySettings = map[string]any{
	"plugins.security.ssl.transport.pemcert_filepath":              certFile,
	"plugins.security.ssl.transport.pemkey_filepath":               keyFile,
	"plugins.security.ssl.transport.pemtrustedcas_filepath":        caFile,
	"plugins.security.ssl.transport.enforce_hostname_verification": false,
	"plugins.security.ssl.http.enabled":                            true,
	"plugins.security.ssl.http.pemcert_filepath":                   certFile,
	"plugins.security.ssl.http.pemkey_filepath":                    keyFile,
	"plugins.security.ssl.http.pemtrustedcas_filepath":             caFile,
	"plugins.security.nodes_dn":                                    []string{"CN=node"},
	// Users and roles begin as the plugin ships them, and are changed by the administrator over HTTP.
	"plugins.security.allow_default_init_securityindex": true,
	"plugins.security.restapi.roles_enabled":            []string{"all_access"},
}

// CAFile is the file with the authority that has signed the certificates of a secured cluster.
func (c *Cluster) CAFile() string { return filepath.Join(c.nodes[0].home, "config", caFile) }

// secure gives every node its certificate and the plugin's own configuration, which lies in the folder shipped, and returns
// what a client trusts.
func (c *Cluster) secure(shipped string) (*tls.Config, error) {
	ca, cert, key, err := certificates()
	if err != nil {
		return nil, err
	}
	for _, n := range c.nodes {
		config := filepath.Join(n.home, "config")
		for name, content := range map[string][]byte{caFile: ca, certFile: cert, keyFile: key} {
			if err := os.WriteFile(filepath.Join(config, name), content, 0o600); err != nil {
				return nil, err
			}
		}
		if err := os.CopyFS(filepath.Join(config, "opensearch-security"), os.DirFS(shipped)); err != nil {
			return nil, err
		}
	}
	trusted := x509.NewCertPool()
	trusted.AppendCertsFromPEM(ca)
	return &tls.Config{RootCAs: trusted}, nil
}

// certificates makes an authority and, signed by it, a certificate for 127.0.0.1 with its key, all as PEM.
func certificates() (ca, cert, key []byte, err error) {
	authorityKey, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, nil, err
	}
	nodeKey, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, nil, err
	}
	from := time.Now().Add(-time.Hour) // clocks of servers may differ
	authority := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "authority"}, NotBefore: from, NotAfter: from.Add(24 * time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	node := &x509.Certificate{
		SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: "node"}, NotBefore: from, NotAfter: from.Add(24 * time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, KeyUsage: x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	signedAuthority, err := x509.CreateCertificate(rand.Reader, authority, authority, authorityKey.Public(), authorityKey)
	if err != nil {
		return nil, nil, nil, err
	}
	signedNode, err := x509.CreateCertificate(rand.Reader, node, authority, nodeKey.Public(), authorityKey)
	if err != nil {
		return nil, nil, nil, err
	}
	keyBytes, err := x509.MarshalPKCS8PrivateKey(nodeKey)
	if err != nil {
		return nil, nil, nil, err
	}
	encode := func(kind string, content []byte) []byte {
		return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: content})
	}
	return encode("CERTIFICATE", signedAuthority), encode("CERTIFICATE", signedNode), encode("PRIVATE KEY", keyBytes), nil
}
