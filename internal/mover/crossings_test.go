package mover

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/shardonnay/shardonnay/internal/cluster"
	"github.com/shardonnay/shardonnay/internal/cluster/clustertest"
	"github.com/shardonnay/shardonnay/internal/model"
	"github.com/shardonnay/shardonnay/internal/plan"
)

// overTheSea is a shard with its primary in eu, and a larger one within eu.
func overTheSea(t *testing.T, replica string) *cluster.Snapshot {
	t.Helper()
	s, err := clustertest.Parse(`
node e1 region=eu
node e2 region=eu
node u1 region=us
node u2 region=us
index a replicas=1
index b
copy a/0 p e1 bytes=10gb
copy a/0 r ` + replica + ` bytes=10gb
copy b/0 p e2 bytes=40gb
`)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// The count of passes and what is in the buckets outlive the process; what was counted is not counted again.
func TestCrossingsOutliveTheProcess(t *testing.T) {
	const gb = 1 << 30
	dir := t.TempDir()
	limits := CrossingLimits{Region: "region", Every: 3, BytesPerHour: 6 * gb}
	at := func(replica string, minutes int) (*Crossings, model.WAN) {
		t.Helper()
		x, warning, err := OpenCrossings(dir)
		if err != nil || warning != "" {
			t.Fatal(warning, err)
		}
		s := overTheSea(t, replica)
		s.TakenAt = clustertest.TakenAt.Add(time.Duration(minutes) * time.Minute)
		wan, err := x.Pass(s, limits)
		if err != nil {
			t.Fatal(err)
		}
		return x, wan
	}
	link := model.Link{From: "eu", To: "us"}
	x, wan := at("u1", 0)
	if !wan.Closed || wan.Left[link] != 40*gb || wan.Left[model.Link{From: "us", To: "eu"}] != 40*gb {
		t.Errorf("the first pass: %+v", wan)
	}
	// A move within us reads from eu.
	move := plan.Move{AllocationID: "a/0/r/u1", To: plan.Place{ID: "u2"}, Bytes: 10 * gb, WAN: &link}
	for range 2 {
		if err := x.Spend([]plan.Move{move}); err != nil {
			t.Fatal(err)
		}
	}
	if x.Left()[link] != 30*gb || x.Crossed()[link] != 10*gb {
		t.Errorf("spent once: %v, %v", x.Left(), x.Crossed())
	}
	// It is still under way half an hour later, in another process: three gigabytes have come in.
	x, wan = at("u1 -> u2", 30)
	if !wan.Closed || wan.Left[link] != 33*gb || len(x.Crossed()) != 0 {
		t.Errorf("half an hour later: %+v, %v", wan, x.Crossed())
	}
	// The server's own relocation is counted, within a region's link nothing is; the third pass is open.
	x, wan = at("u2 -> u1", 30)
	if wan.Closed || wan.Left[link] != 23*gb || x.Crossed()[link] != 10*gb {
		t.Errorf("the server moves: %+v, %v", wan, x.Crossed())
	}
	if x, _ = at("u2 -> e2", 30); x.Crossed()[link] != 0 {
		t.Errorf("from its primary's region to the same: %v", x.Crossed())
	}
	// A bucket holds no more than the largest copy.
	if _, wan = at("u2", 60*24); wan.Left[link] != 40*gb {
		t.Errorf("a day later: %+v", wan)
	}
}

// A file that cannot be understood is put aside, with full buckets afterwards.
func TestBrokenCrossingsArePutAside(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, crossingsFile), []byte(`{"version":1,"pass":`), 0o600); err != nil {
		t.Fatal(err)
	}
	x, warning, err := OpenCrossings(dir)
	if err != nil || !strings.Contains(warning, "crossings.json.broken") || x.content.Pass != 0 {
		t.Errorf("%q, %v, %+v", warning, err, x)
	}
}

// A shard cools down as a whole once a copy of it has landed, and for longer than the ledger remembers otherwise.
func TestShardsCoolDown(t *testing.T) {
	l, _, err := OpenLedger("")
	if err != nil {
		t.Fatal(err)
	}
	now := time.Date(2026, 1, 10, 0, 0, 0, 0, time.UTC)
	if cooling := l.ShardsCoolingDown(now, 72*time.Hour); len(cooling) != 0 {
		t.Errorf("%v", cooling)
	}
	for i, state := range []State{Landed, Cancelled} {
		l.entries = append(l.entries, entry{Move: plan.Move{IndexUUID: "u", Shard: i}, State: state, Ended: now.Add(-48 * time.Hour)})
	}
	if err := l.save(now); err != nil {
		t.Fatal(err)
	}
	cooling := l.ShardsCoolingDown(now, 72*time.Hour)
	if _, landed := cooling[model.ShardID{IndexUUID: "u", Shard: 0}]; !landed || len(cooling) != 1 {
		t.Errorf("%v", cooling)
	}
	if cooling := l.ShardsCoolingDown(now, 48*time.Hour); len(cooling) != 0 {
		t.Errorf("after its time: %v", cooling)
	}
}
