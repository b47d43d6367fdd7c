package zones

import (
	"testing"

	"github.com/shardonnay/shardonnay/internal/es"
)

// A zone that is late for the other nodes alone looks well to who asks only its own nodes about it: whom a round asks changes,
// until every zone has been asked.
func TestEveryZoneIsAskedAboutTheOthers(t *testing.T) {
	c := &Controller{state: &State{Roster: Roster{}}, clients: map[string]*es.Client{}, probes: map[string]bool{}}
	zone := map[*es.Client]string{}
	for i, name := range []string{"n0", "n1", "n2", "n3"} {
		m := Member{Name: name, Zone: []string{"a", "b"}[i%2]}
		c.state.Roster[name], c.clients[name], c.probes[name] = m, new(es.Client), true
		zone[c.clients[name]] = m.Zone
	}
	c.health.Zones = map[string]Health{}
	asked := map[string]int{}
	for c.looks = 0; c.looks < 4*loadsEvery; c.looks += loadsEvery { // the looks at loads
		asked[zone[c.ask()]]++
	}
	if asked["a"] == 0 || asked["b"] == 0 {
		t.Errorf("in %d looks at loads the zones were asked %v times", 4, asked)
	}
	c.health.Zones["a"] = Health{Seen: []Signal{Silent}}
	for c.looks = range 8 {
		if z := zone[c.ask()]; z != "b" {
			t.Errorf("zone %q is asked while something speaks against it", z)
		}
	}
}
