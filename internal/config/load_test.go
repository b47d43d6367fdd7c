package config

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"
	"github.com/google/go-cmp/cmp"
	"github.com/spf13/pflag"

	"github.com/shardonnay/shardonnay/internal/cluster"
)

// Each file below testdata/invalid is one way to get it wrong: the file's text, environment and flags, and the message.
func TestFaults(t *testing.T) {
	datadriven.Walk(t, "testdata/invalid", func(t *testing.T, path string) {
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			dir := t.TempDir()
			file := filepath.Join(dir, "shardonnay.yaml")
			if err := os.WriteFile(file, []byte(d.Input), 0o600); err != nil {
				t.Fatal(err)
			}
			flags := pflag.NewFlagSet("test", pflag.ContinueOnError)
			for _, arg := range d.CmdArgs {
				switch arg.Key {
				case "file":
					file = filepath.Join(dir, arg.Vals[0])
				case "env":
					for _, variable := range arg.Vals {
						name, value, _ := strings.Cut(variable, "=")
						t.Setenv(name, value)
					}
				case "mode":
					flags.String("mode", "", "")
					BindFlag(flags, "mode", "mode")
					if err := flags.Set("mode", arg.Vals[0]); err != nil {
						t.Fatal(err)
					}
				default:
					d.Fatalf(t, "unknown argument %s", arg.Key)
				}
			}
			_, err := Load(file, flags)
			if err == nil {
				return "no fault\n"
			}
			if cluster.ClassOf(err) != cluster.Invalid || cluster.ExitCode(err) != 2 {
				t.Errorf("class %s, exit code %d", cluster.ClassOf(err), cluster.ExitCode(err))
			}
			return strings.ReplaceAll(err.Error(), dir, "/etc") + "\n"
		})
	})
}

func TestNothingGivenIsTheDefault(t *testing.T) {
	got, err := Load("", nil)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(Default(), got); diff != "" {
		t.Error(diff)
	}
}

func TestFlagOverEnvironmentOverFile(t *testing.T) {
	file := write(t, "limits:\n  in_flight: 3\n  node_incoming: 3\n  node_outgoing: 3\nbalance.tolerance: 7%\n")
	t.Setenv("SHARDONNAY_LIMITS_NODE_INCOMING", "5")
	t.Setenv("SHARDONNAY_LIMITS_NODE_OUTGOING", "5")
	flags := pflag.NewFlagSet("test", pflag.ContinueOnError)
	flags.Int("outgoing", 0, "")
	flags.Int("incoming", 9, "not given, so that its default does not count")
	flags.StringSlice("address", nil, "")
	BindFlag(flags, "outgoing", "limits.node_outgoing")
	BindFlag(flags, "incoming", "limits.node_incoming")
	BindFlag(flags, "address", "connection.addresses")
	if err := flags.Parse([]string{"--outgoing=7", "--address=http://a:9200,http://b:9200", "--address=http://c:9200"}); err != nil {
		t.Fatal(err)
	}
	got, err := Load(file, flags)
	if err != nil {
		t.Fatal(err)
	}
	want := Default()
	want.Limits.InFlight, want.Limits.NodeIncoming, want.Limits.NodeOutgoing = 3, 5, 7
	want.Balance.Tolerance = 0.07
	want.Connection.Addresses = []string{"http://a:9200", "http://b:9200", "http://c:9200"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// Viper forgets keys that only the environment sets when it decodes into a struct; this loader must not.
func TestEveryKeyCanBeSetByEnvironmentAlone(t *testing.T) {
	values := map[string]string{
		"connection.addresses": "http://es:9200,http://es2:9200", "connection.username": "me",
		"connection.password_file": write(t, "secret\n"), "connection.client_cert_file": write(t, "x"),
		"connection.client_key_file": write(t, "x"), "connection.insecure_skip_verify": "true",
		"mode": "act", "balance.capacity": "hot-* disk=2tb,box=warm heap=4gb", "balance.dimensions": "disk=2,heap", "pin.indices": "a*,-ab*", "pin.newest": "false",
		"limits.max_bytes_per_cycle": "7gb", "limits.in_flight_bytes": "8gb",
		"stop.status": "yellow", "stop.disk_margin": "3gb", "stop.pause": "Sat-Sun 00:00-24:00 Europe/Berlin", "ownership.holder": "h",
		"ownership.lease": "10m", "cycle.interval": "31s", "cycle.time_limit": "32s", "cycle.deadline": "33s",
		"http.listen": ":9", "http.debug": "true", "http.token_file": write(t, "token"), "state.dir": "/s",
		"log.level": "debug", "log.format": "json", "connection.aws.service": "aoss", "balance.write_factor": "3",
		"zones.mode": "observe", "zones.attribute": "az", "zones.rotation": "20m", "zones.write_failover": "off", "zones.early_drain": "true",
		"zones.exempt_indices": ".*,scratch-*", "zones.canary_index": "proof",
		"regions.attribute": "region", "regions.zone_attribute": "az", "regions.host_attribute": "box", "regions.remainder": "spread",
		"regions.layout": "logs-* eu=3 us=1,* eu=2 us=1", "regions.home": "logs-*=eu", "regions.wan_factor": "3", "regions.wan_bytes_per_hour": "6gb",
	}
	// These exclude others of the above; the tests of faults and secrets set them.
	excluded := map[string]bool{
		"connection.api_key_file": true, "connection.ca_file": true, "connection.aws.region": true,
		"election.lease": true, "election.namespace": true, "election.kubeconfig": true, "zones.drain_by": true,
	}
	for _, k := range keys {
		value, given := values[k.name]
		if !given {
			switch def := Default(); def.at(k).Interface().(type) {
			case time.Duration:
				value = "17s"
			case int:
				value = "9"
			case float64:
				value = "0.21"
			default:
				if !excluded[k.name] {
					t.Fatalf("this test has no value for %s", k.name)
				}
				continue
			}
		}
		t.Setenv(envName(k.name), value)
	}
	got, err := Load("", nil)
	if err != nil {
		t.Fatal(err)
	}
	def := Default()
	for _, k := range keys {
		if !excluded[k.name] && cmp.Equal(def.at(k).Interface(), got.at(k).Interface()) {
			t.Errorf("%s=%s was not taken", envName(k.name), os.Getenv(envName(k.name)))
		}
	}
}

func TestElectionByEnvironment(t *testing.T) {
	kubeconfig := write(t, "x")
	t.Setenv("SHARDONNAY_ELECTION_LEASE", "shardonnay")
	t.Setenv("SHARDONNAY_ELECTION_NAMESPACE", "search")
	t.Setenv("SHARDONNAY_ELECTION_KUBECONFIG", kubeconfig)
	got, err := Load("", nil)
	if want := (Election{"shardonnay", "search", kubeconfig}); err != nil || got.Election != want {
		t.Errorf("%+v, %v", got.Election, err)
	}
}

func TestKubernetesServiceVariablesAreNotOurs(t *testing.T) {
	t.Setenv("SHARDONNAY_SERVICE_HOST", "10.0.0.1")
	t.Setenv("SHARDONNAY_PORT_9750_TCP", "tcp://10.0.0.1:9750")
	if _, err := Load("", nil); err != nil {
		t.Error(err)
	}
}

func TestSecretsComeFromFileOrEnvironmentAndAreNeverShown(t *testing.T) {
	const secret = "correct horse"
	passwordFile, tokenFile := write(t, secret+"\n"), write(t, secret)
	fromFile, err := Load(write(t, fmt.Sprintf("connection:\n  username: u\n  password_file: %s\nhttp:\n  token_file: %s\n", passwordFile, tokenFile)), nil)
	if err != nil {
		t.Fatal(err)
	}
	if fromFile.Connection.Client().Password != secret || string(fromFile.HTTP.Token) != secret {
		t.Error("the secrets were not read from their files")
	}
	shown := fmt.Sprintf("%v %+v %#v %s %q", fromFile, fromFile, fromFile, fromFile.Connection.Password, fromFile.HTTP.Token)
	if strings.Contains(shown, secret) {
		t.Errorf("a secret is shown: %s", shown)
	}
	t.Setenv("SHARDONNAY_CONNECTION_API_KEY", secret)
	fromEnvironment, err := Load("", nil)
	if err != nil {
		t.Fatal(err)
	}
	if fromEnvironment.Connection.Client().APIKey != secret {
		t.Error("the API key was not read from the environment")
	}
}

func TestAFaultNeverShowsASecret(t *testing.T) {
	for _, text := range []string{
		"connection:\n  password: hunter2\n",
		"connection:\n  addresses: ['https://admin:hunter2@es:9200']\n",
		"connection:\n  addresses: ['admin:hunter2@es:9200']\n",
	} {
		if _, err := Load(write(t, text), nil); err == nil || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%q gives %v", text, err)
		}
	}
}

func TestAFileThatMayNotBeReadIsNamed(t *testing.T) {
	dir := t.TempDir() // a folder cannot be read as a file, not even by root
	_, err := Load(write(t, "connection:\n  username: u\n  password_file: "+dir+"\n  ca_file: "+dir+"/none.pem\n"), nil)
	if err == nil {
		t.Fatal("no fault")
	}
	for _, want := range []string{"connection.password_file", "connection.ca_file", dir, "readable for the user", "2 faults"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%v does not say %q", err, want)
		}
	}
}

func TestRestartNeeded(t *testing.T) {
	was, next := Default(), Default()
	next.Limits.InFlight++
	next.Connection.Addresses = []string{"http://other:9200"}
	next.HTTP.Listen = ":1"
	next.Log.Format = "json"
	want := []string{"http.listen", "log.format"}
	if diff := cmp.Diff(want, was.RestartNeeded(&next)); diff != "" {
		t.Error(diff)
	}
}

func TestBindFlagRefusesWhatDoesNotExist(t *testing.T) {
	flags := pflag.NewFlagSet("test", pflag.ContinueOnError)
	flags.String("there", "", "")
	for _, c := range [][2]string{{"there", "no.key"}, {"gone", "mode"}} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("flag %s, key %s: no panic", c[0], c[1])
				}
			}()
			BindFlag(flags, c[0], c[1])
		}()
	}
}

func TestNoTwoKeysShareAVariable(t *testing.T) {
	seen := make(map[string]string)
	for _, k := range keys {
		if other, taken := seen[envName(k.name)]; taken {
			t.Errorf("%s and %s are both %s", k.name, other, envName(k.name))
		}
		seen[envName(k.name)] = k.name
	}
}

func FuzzLoad(f *testing.F) {
	f.Add([]byte("mode: act\nlimits: {in_flight: 2}\n"))
	f.Add([]byte("a: &a\n  - *a\n"))
	f.Add([]byte("connection: [1]\nstop:\n  pause: [Mon 1]\n"))
	f.Add([]byte("? {a: b}\n: c\n"))
	dir := f.TempDir()
	f.Fuzz(func(t *testing.T, content []byte) {
		file := filepath.Join(dir, "f.yaml")
		if err := os.WriteFile(file, content, 0o600); err != nil {
			t.Fatal(err)
		}
		c, err := Load(file, nil)
		if err != nil && cluster.ClassOf(err) != cluster.Invalid {
			t.Errorf("class %s: %v", cluster.ClassOf(err), err)
		}
		if err == nil && (c.Cycle.Interval < time.Second || c.Ownership.Holder == "") {
			t.Errorf("an impossible value got through: %+v", c)
		}
	})
}

// write makes a file with that content and returns its path.
func write(t *testing.T, content string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}
