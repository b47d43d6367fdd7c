package page

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/shardonnay/shardonnay/internal/history"
	"github.com/shardonnay/shardonnay/internal/plan"
)

// demo starts "shardonnay demo --stay" and gives the page's address, what ends it, and its lines as they come.
func demo(t *testing.T) (url string, end func(), lines <-chan string) {
	t.Helper()
	program := filepath.Join(scratch, "shardonnay")
	if out, err := exec.Command("go", "build", "-o", program, "../../cmd/shardonnay").CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	cmd := exec.Command(program, "demo", "--stay")
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stderr = cmd.Stdout
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	said := make(chan string, 1000) // more than a demo says
	end = sync.OnceFunc(func() {
		_ = cmd.Process.Signal(os.Interrupt)
		for range said { // until it has ended
		}
		_ = cmd.Wait() // the exit code of an interrupted demo says that it was interrupted
	})
	t.Cleanup(end)
	go func() {
		defer close(said)
		for scanner := bufio.NewScanner(out); scanner.Scan(); {
			said <- scanner.Text()
		}
	}()
	address := regexp.MustCompile(`^Page at (http://\S+)`)
	for line := range said {
		t.Log(line)
		if found := address.FindStringSubmatch(line); found != nil {
			return found[1], end, said
		}
	}
	t.Fatal("the demo did not say where its page is")
	return "", nil, nil
}

// TestTheDemoEvensOut watches the heat of the demo's cluster even out on the page, and compares what the page says with what
// the daemon answers.
func TestTheDemoEvensOut(t *testing.T) {
	if _, err := browser(); err != nil {
		open(t, "", 0, 0, "") // says so
	}
	url, end, lines := demo(t)
	b := open(t, url+"/", 1440, 900, "dark")
	b.await("document.querySelector('#cluster-name').textContent !== 'connecting'")
	b.await("document.querySelector('#heat-map canvas')")
	b.await("Number(document.querySelector('#done-count').textContent) > 0")
	b.shot("demo-at-work")
	for deadline := time.After(90 * time.Second); ; {
		select {
		case line, ok := <-lines:
			if !ok {
				t.Fatal("the demo ended early")
			}
			t.Log(line)
			if !strings.Contains(line, "Serving the page") {
				continue
			}
		case <-deadline:
			t.Fatal("the demo's daemon did not come to an end")
		}
		break
	}

	// The daemon goes on, a cycle a second: what the page says is compared with the very plan it shows.
	seen := eval[struct {
		Plan                   plan.Plan
		Figures, Terms, Values string
	}](b, `(async () => {
		for (;;) {
			const plan = await (await fetch("api/v1/plan")).json();
			for (let i = 0; i < 30; i++) {
				if (document.querySelector("#plan").dataset.plan === plan.id) {
					return {Plan: plan, Figures: document.querySelector("#figures").innerText, Terms: document.querySelector("#terms").innerText,
						Values: document.querySelector("#profile-values").innerText};
				}
				await new Promise((done) => setTimeout(done, 50));
			}
		}
	})()`)
	p := &seen.Plan
	now := fmt.Sprintf("%.2f×", p.Balance[0].Before.PeakToMean)
	if missing := has(seen.Figures, now); missing != nil {
		t.Errorf("the figures lack %q: %s", missing, seen.Figures)
	}
	if p.Balance[0].Dimension != "search" || p.Balance[0].Before.PeakToMean > 1.25 {
		t.Errorf("%s is at %s of the mean after the demo", p.Balance[0].Dimension, now)
	}
	if missing := has(seen.Terms, figure(p.Objective.LowerBound), figure(p.Objective.Before), figure(p.Objective.After)); missing != nil {
		t.Errorf("the objective lacks %q: %s", missing, seen.Terms)
	}

	// Before and after: the daemon's own first sample, and a last one that is even.
	heat := get[history.Heat](t, b, "api/v1/history?dimension=search")
	if first := heat.PeakToMean["search"][0]; first < 2 || !strings.Contains(seen.Values, fmt.Sprintf("%.2f×", first)) {
		t.Errorf("the demo began at %.2f of the mean, the page says %q", first, seen.Values)
	}
	if len(heat.Nodes) != 30 || len(heat.Time) < 5 {
		t.Errorf("%d samples of %d nodes", len(heat.Time), len(heat.Nodes))
	}
	landed := eval[int](b, `(async () => {
		for (;;) {
			const landed = (await (await fetch("api/v1/moves")).json()).moves.filter((move) => move.state === "landed").length;
			if (document.querySelector("#figures").innerText.includes(landed + " landed within a day")) return landed;
			await new Promise((done) => setTimeout(done, 50));
		}
	})()`)
	if landed < 10 {
		t.Errorf("%d moves landed", landed)
	}
	b.shot("demo")
	b.quiet(url)

	end()
	b.await("document.querySelector('#notices').innerText.includes('does not answer since')")
	if missing := has(b.text("body"), "demo", "landed within a day", "search, peak over mean"); missing != nil {
		t.Errorf("after the demo the page forgot %q", missing)
	}
}

// figure writes a number as the page does: three digits that matter.
func figure(x float64) string {
	if x == 0 {
		return "0"
	}
	return fmt.Sprintf("%.3g", x)
}
