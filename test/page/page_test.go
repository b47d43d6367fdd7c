package page

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/shardonnay/shardonnay/internal/cluster"
	"github.com/shardonnay/shardonnay/internal/es"
	"github.com/shardonnay/shardonnay/internal/mover"
	"github.com/shardonnay/shardonnay/internal/plan"
	"github.com/shardonnay/shardonnay/internal/rebalance"
	"github.com/shardonnay/shardonnay/internal/zones"
)

// TestFreshDaemon: the page is of use before the first cycle has ended, with one sample, and after.
func TestFreshDaemon(t *testing.T) {
	m := listen(t, "127.0.0.1:0", "")
	b := open(t, m.server.URL()+"/", 1280, 900, "light")
	b.await("document.querySelector('#cluster-name').textContent === 'search-prod'")
	if missing := has(b.text("body"), "OpenSearch 2.19.6", "act", "has just started", "Waiting for the first cycle", "No plan yet", "none yet", "read only"); missing != nil {
		t.Errorf("before the first cycle the page lacks %q:\n%s", missing, b.text("body"))
	}
	b.shot("fresh")
	nodes := someNodes(9)
	made := somePlan(nodes, 2, 2.5)
	made.Snapshot.Samples = 1
	m.cycle(time.Now(), nodes, func(n, _ int) float64 { return float64(1 + n%3) }, made)
	m.set(func() {
		m.latest.Outcome, m.latest.Reason, m.latest.Snapshot.Samples = rebalance.Held, "warming up: rates need two samples of the counters", 1
	})
	b.await("document.querySelector('#heat-map canvas') && document.body.innerText.includes('Warming up')")
	if missing := has(b.text("body"), "2.50×", "held", "2 moves of 24.0 GiB"); missing != nil {
		t.Errorf("with one sample the page lacks %q:\n%s", missing, b.text("body"))
	}
	b.shot("one-sample")
	m.cycle(time.Now(), nodes, func(int, int) float64 { return 1 }, somePlan(nodes, 0, 1.02))
	b.await("document.querySelector('#plan-worth').textContent.includes('Nothing is planned')")
	if missing := has(b.text("#figures"), "1.02×", "balanced"); missing != nil {
		t.Errorf("balanced, the page lacks %q:\n%s", missing, b.text("#figures"))
	}
	b.quiet(m.server.URL())
}

// TestStopsAndHolds: what keeps the daemon from moving is said, with what ends it.
func TestStopsAndHolds(t *testing.T) {
	m := listen(t, "127.0.0.1:0", "")
	nodes := someNodes(9)
	m.cycle(time.Now(), nodes, func(n, _ int) float64 { return float64(1 + n%3) }, somePlan(nodes, 2, 2.5))
	m.set(func() {
		m.latest.Outcome = rebalance.ClusterNotReady
		m.latest.Report = &mover.Report{Stop: &mover.Stop{Kind: mover.Storm, Text: "20 relocations are under way that are not ours", Cure: "It goes on once they have landed"}}
	})
	b := open(t, m.server.URL()+"/", 1280, 900, "dark")
	b.await("document.querySelector('#notices').innerText.includes('20 relocations')")
	if missing := has(b.text("#notices"), "No moves (storm)", "It goes on once they have landed."); missing != nil {
		t.Errorf("the notices lack %q: %s", missing, b.text("#notices"))
	}
	m.set(func() {
		m.latest = &rebalance.Summary{Mode: plan.Act, Outcome: rebalance.NotOwner, Hold: &mover.Hold{Kind: mover.OtherHolder, Text: "elsewhere owns rebalancing", Cure: "Stop that instance"}}
	})
	b.await("document.querySelector('#owner').innerText.includes('another instance')")
	if missing := has(b.text("#notices"), "elsewhere owns rebalancing", "Stop that instance."); missing != nil {
		t.Errorf("the notices lack %q: %s", missing, b.text("#notices"))
	}
	b.quiet(m.server.URL())
}

// TestHostileNames: whatever a cluster calls its parts is text, wherever it is shown.
func TestHostileNames(t *testing.T) {
	m := listen(t, "127.0.0.1:0", "")
	const evil = `<img src=x onerror="document.title='owned'"><script>document.title='owned'</script>`
	m.options.Cluster.Name = "c-" + evil
	nodes := someNodes(6)
	for i := range nodes {
		nodes[i].Name = fmt.Sprint("n", i, evil)
		nodes[i].Attributes = map[string]string{"zone": "z" + evil}
	}
	made := somePlan(nodes, 3, 2)
	for i := range made.Moves {
		made.Moves[i].Index, made.Moves[i].Text = "index"+evil, "text"+evil
		made.Moves[i].Reason = plan.Reason("reason" + evil)
	}
	made.Verdicts = []plan.Verdict{{Kind: plan.Kind("kind" + evil), Subject: "node/subject" + evil, Binding: []string{"binding" + evil}, Text: "verdict" + evil, Advice: "advice" + evil}}
	made.Snapshot.Warnings = []string{"warning" + evil}
	made.Balance[0].Dimension = "dimension" + evil
	made.Objective.Terms[0].Name = "term" + evil
	m.cycle(time.Now().Add(-time.Minute), nodes, func(n, _ int) float64 { return float64(1 + n) }, made)
	m.set(func() { m.latest.Reason = "reason of the cycle" + evil })
	m.move(1, "moved"+evil, nodes[0], nodes[5], 1<<30, time.Now().Add(-40*time.Second), 20*time.Second, mover.Landed, "")
	m.move(2, "failed"+evil, nodes[1], nodes[4], 1<<30, time.Now().Add(-40*time.Second), 20*time.Second, mover.Refused, "why"+evil)
	m.move(3, "flying"+evil, nodes[2], nodes[3], 1<<30, time.Now().Add(-40*time.Second), 0, mover.Relocating, "")
	b := open(t, m.server.URL()+"/", 1280, 900, "light")
	b.await("document.querySelector('#moves-done tbody tr') && document.querySelector('#heat-map canvas') && document.querySelector('#plan-moves tbody tr')")
	b.do(chromedp.Focus(chromedp.CSS("#heat-map")), chromedp.KeyEvent(kb.End+kb.ArrowUp))
	b.await("!document.querySelector('.tip').hidden")
	text := eval[string](b, "document.body.textContent")
	for _, part := range []string{
		"c-", "n0", "z", "index", "text", "reason", "kind", "subject", "binding", "verdict", "advice", "warning", "dimension", "term",
		"reason of the cycle", "moved", "failed", "why", "flying",
	} {
		if !strings.Contains(text, part+evil) {
			t.Errorf("%s is not shown as it is written", part)
		}
	}
	if tip := b.text(".tip"); !strings.Contains(tip, evil) {
		t.Errorf("the heat map's words are %q", tip)
	}
	if got := eval[int](b, "document.querySelectorAll('img, script').length"); got != 2 { // the icon and the page's own
		t.Errorf("%d images and scripts are in the page", got)
	}
	if title := eval[string](b, "document.title"); !strings.HasPrefix(title, "c-<img") {
		t.Errorf("the title is %q", title)
	}
	b.quiet(m.server.URL())
}

// TestZones: they are there where the daemon looks at them, with what each is and what holds them up, and what they are called
// is text.
func TestZones(t *testing.T) {
	m := listen(t, "127.0.0.1:0", "")
	b := open(t, m.server.URL()+"/", 1280, 900, "light")
	b.await("document.querySelector('#cluster-name').textContent === 'search-prod'")
	if !eval[bool](b, "document.querySelector('#zones').hidden") || b.asked("/api/v1/zones") > 0 {
		t.Error("there are zones where nobody looks at any")
	}
	const evil = `<img src=x onerror="document.title='owned'">`
	one, none := 1.0, 0.0
	looked := time.Now()
	status := &zones.Status{
		At: looked, Mode: zones.Act, Attribute: "zone" + evil, Phase: zones.Holding, Write: zones.Gone, Version: 7, Due: looked.Add(10 * time.Minute), Leader: "a" + evil,
		Zones: []zones.ZoneStatus{
			{Zone: "a" + evil, Role: zones.Active, Weight: &one, Nodes: 2, Members: 2, Copies: es.ZoneCopies{Active: 40, Initializing: 2, Relocating: 1}},
			{Zone: "b", Role: zones.Active, Weight: &one, Nodes: 1, Members: 2, Health: zones.Health{
				Bad: []zones.Signal{zones.Signal("probe")}, Seen: []zones.Signal{"probe", zones.Signal("search_test" + evil)}, ReadImpaired: true,
			}},
			{Zone: "c", Role: zones.Standby, Weight: &none, Nodes: 2, Members: 2},
			{Zone: "d", Role: zones.Out, Nodes: 0, Members: 2, Health: zones.Health{Bad: zones.Signals}},
		},
		Hold:    &zones.Hold{Reason: "upgrade" + evil, By: "ann" + evil, Since: looked},
		Blocked: []zones.Check{{Guard: "standby_well", Text: "zone c is not well" + evil}},
		Leaving: &zones.Leaving{Zone: "d", Soft: true},
	}
	m.set(func() { m.options.Zones = status })
	b.await("document.querySelectorAll('#zone-list tbody tr').length === 4 && !document.querySelector('#zones').hidden")
	for i, want := range [][]string{
		{"a" + evil, "active", "well", "leads", "2 of 2", "402 recovering, 1 moving"}, // two lines
		{"b", "active", "searches impaired", "probe: nodes do not answer", "search test" + evil + " (first signs)", "1 of 2"},
		{"c", "standby", "well", "2 of 2"},
		{"d", "fenced", "none", "0 of 2"},
	} {
		if row := eval[string](b, fmt.Sprintf("document.querySelector('#zone-list tbody tr:nth-child(%d)').textContent", i+1)); has(row, want...) != nil {
			t.Errorf("zone %d lacks %q: %s", i+1, has(row, want...), row)
		}
	}
	if said := eval[int](b, "[...document.querySelectorAll('#zone-list tbody tr:nth-child(4) .chip.bad')].filter((c) => c.textContent.includes(': ')).length"); said != len(zones.Signals) {
		t.Errorf("%d of %d signals say what they mean", said, len(zones.Signals))
	}
	lead, notes := eval[string](b, "document.querySelector('#zones-lead').textContent"), eval[string](b, "document.querySelector('#zones-notes').textContent")
	if missing := has(lead, "By attribute zone"+evil, "mode act", "rotation due"); missing != nil || b.text("#zones-phase") != "holding" {
		t.Errorf("%q is missing: %s", missing, lead)
	}
	if missing := has(notes, "Held by ann"+evil, "upgrade"+evil, "Held up: zone c is not well"+evil+" (standby well)"); missing != nil {
		t.Errorf("%q is missing: %s", missing, notes)
	}
	if got := eval[int](b, "document.querySelectorAll('#zones img').length"); got != 0 {
		t.Errorf("%d images are among the zones", got)
	}
	b.shot("zones")
	b.view(390, 844, 1)
	if wide := eval[int](b, "document.documentElement.scrollWidth"); wide > 390 {
		t.Errorf("the page is %d pixels wide on a telephone", wide)
	}
	b.shot("zones-narrow")
	asked := b.asked("/api/v1/zones")
	polls := b.asked("/api/v1/status")
	for b.asked("/api/v1/status") < polls+3 {
		eval[bool](b, "new Promise((done) => requestAnimationFrame(() => done(true)))")
	}
	if again := b.asked("/api/v1/zones"); again != asked {
		t.Errorf("the zones were asked for %d times more, and nobody has looked at them again", again-asked)
	}
	old := *status
	old.At, old.Hold, old.Blocked = looked.Add(-5*time.Minute), nil, nil
	m.set(func() { m.options.Zones = &old })
	b.await("document.querySelector('#zones-notes').hidden && document.querySelector('#zones-lead').textContent.includes('last looked at 5 min ago')")
	m.set(func() { m.options.Zones = nil })
	b.await("document.querySelector('#zones').hidden")
	b.quiet(m.server.URL())
}

// TestPauseAndResume: without a token configured the page is read only; with one it pauses and resumes for who knows it.
func TestPauseAndResume(t *testing.T) {
	m := listen(t, "127.0.0.1:0", "open sesame")
	nodes := someNodes(6)
	m.cycle(time.Now(), nodes, func(n, _ int) float64 { return float64(1 + n) }, somePlan(nodes, 3, 2))
	b := open(t, m.server.URL()+"/", 1280, 900, "light")
	b.await("!document.querySelector('#pause').hidden")
	press := func(selector string) { b.do(chromedp.Click(chromedp.CSS(selector))) }
	press("#pause")
	b.await("document.querySelector('#ask').open")
	b.shot("token")
	b.do(chromedp.SendKeys(chromedp.CSS("#token"), "guess"+kb.Enter))
	b.await("document.querySelector('#ask-error').textContent !== ''")
	if text := b.text("#ask-error"); !strings.Contains(text, "does not know this token") || m.Paused() {
		t.Errorf("a wrong token: %q, paused %v", text, m.Paused())
	}
	b.mu.Lock()
	b.complaint = slices.DeleteFunc(b.complaint, func(text string) bool { return strings.Contains(text, "401") }) // the refusal is meant
	b.mu.Unlock()
	eval[any](b, "document.querySelector('#token').value = ''")
	b.do(chromedp.SendKeys(chromedp.CSS("#token"), "open sesame"+kb.Enter))
	b.await("document.querySelector('#pause').textContent === 'Resume moving'")
	if !m.Paused() || eval[bool](b, "document.querySelector('#ask').open") {
		t.Error("not paused, or still asking")
	}
	if missing := has(b.text("body"), "Moving is paused", "act, paused"); missing != nil {
		t.Errorf("paused, the page lacks %q", missing)
	}
	press("#pause") // the token is known now
	b.await("document.querySelector('#pause').textContent === 'Pause moving'")
	if m.Paused() {
		t.Error("still paused")
	}
	kept := eval[string](b, "JSON.stringify([document.cookie, {...localStorage}, {...sessionStorage}]) + document.documentElement.outerHTML")
	if strings.Contains(kept, "sesame") {
		t.Error("the token is kept where others can read it")
	}
	b.quiet(m.server.URL())
}

// TestTheDaemonGoes: the page says so and keeps what it knew; when a daemon is back it goes on with that one.
func TestTheDaemonGoes(t *testing.T) {
	m := listen(t, "127.0.0.1:0", "")
	address := strings.TrimPrefix(m.server.URL(), "http://")
	nodes := someNodes(6)
	m.cycle(time.Now(), nodes, func(n, _ int) float64 { return float64(1 + n) }, somePlan(nodes, 3, 2))
	m.move(1, "before", nodes[0], nodes[5], 1<<30, time.Now().Add(-40*time.Second), 20*time.Second, mover.Landed, "")
	b := open(t, m.server.URL()+"/", 1280, 900, "dark")
	b.await("document.querySelector('#moves-done tbody tr') && document.querySelector('#heat-map canvas')")
	b.quiet(m.server.URL())
	m.close()
	b.await("document.querySelector('#notices').innerText.includes('does not answer since')")
	if missing := has(b.text("body"), "search-prod", "What you see is from before that", "before/1", "3 moves of"); missing != nil {
		t.Errorf("without its daemon the page lacks %q:\n%s", missing, b.text("body"))
	}
	b.shot("gone")
	again := listen(t, address, "")
	again.options.Started = time.Now().Add(time.Second)
	again.cycle(time.Now(), nodes, func(int, int) float64 { return 1 }, somePlan(nodes, 0, 1.01))
	b.await("document.querySelector('#notices').innerText === '' && document.querySelector('#plan-worth').textContent.includes('Nothing is planned')")
	b.await("!document.querySelector('#moves-done').innerText.includes('before/1')")
	if samples := eval[int](b, "document.querySelectorAll('#heat-map canvas').length"); samples != 1 {
		t.Errorf("%d heat maps", samples)
	}
}

// TestKeyboard: every control can be reached and seen to be reached, and the heat map read, without a mouse.
func TestKeyboard(t *testing.T) {
	m := listen(t, "127.0.0.1:0", "open sesame")
	nodes := someNodes(30)
	m.fill(nodes, 60, time.Minute, 40)
	b := open(t, m.server.URL()+"/", 1280, 900, "light")
	b.await("document.querySelector('#heat-map canvas') && document.querySelector('#plan-moves tbody tr') && document.querySelector('#moves-done tbody tr')")
	const controls = `[...document.querySelectorAll('a, button, select, input, [tabindex]')].filter((e) => e.checkVisibility() && !e.disabled && !e.closest('dialog:not([open])'))`
	count := eval[int](b, controls+".length")
	eval[any](b, controls+".forEach((e, i) => e.dataset.number = i)")
	reached := make(map[string]bool)
	for range count + 2 {
		b.do(chromedp.KeyEvent(kb.Tab))
		at := eval[[]string](b, "[document.activeElement.dataset.number ?? '', getComputedStyle(document.activeElement).outlineStyle, document.activeElement.outerHTML.slice(0, 120)]")
		if at[0] == "" {
			continue // the document's end
		}
		reached[at[0]] = true
		if at[1] == "none" {
			t.Errorf("the focus cannot be seen on %s", at[2])
		}
	}
	if len(reached) != count || count < 12 {
		t.Errorf("%d of %d controls were reached by Tab", len(reached), count)
	}

	press := func(keys string, modifiers ...chromedp.KeyOption) { b.do(chromedp.KeyEvent(keys, modifiers...)) }
	b.do(chromedp.Focus(chromedp.CSS("#order")))
	press(kb.Tab) // to the heat map
	b.await("document.activeElement.id === 'heat-map' && !document.querySelector('.tip').hidden")
	press(kb.Home + kb.ArrowDown + kb.ArrowDown + kb.ArrowRight)
	b.await("/of its fair share/.test(document.querySelector('.tip').innerText)")
	first := b.text(".tip")
	press(kb.ArrowDown)
	b.await(fmt.Sprintf("document.querySelector('.tip').innerText !== %q", first))
	b.await("document.querySelector('#heat-live').textContent === document.querySelector('.tip').textContent") // screen readers hear it
	press("m")
	b.await("/came from|went to/.test(document.querySelector('.tip').innerText)")
	if missing := has(b.text(".tip"), "GiB", "landed", "search 2.4x"); missing != nil {
		t.Errorf("at a move the heat map says %q, not %q", b.text(".tip"), missing)
	}
	if hidden := eval[bool](b, "document.querySelector('.link').hidden"); hidden {
		t.Error("the ends of the move are not connected")
	}
	b.shot("keyboard")
	press("+")
	b.await("!document.querySelector('#reset').hidden")
	press(kb.Escape)
	b.await("document.querySelector('#reset').hidden")

	// A dimension and a page of the plan, by Enter.
	b.do(chromedp.Focus(chromedp.CSS("#dimensions button:nth-child(2)")))
	press(kb.Enter)
	b.await("document.querySelector('#dimensions [aria-pressed=true]').textContent === 'index' && /index /.test(document.querySelector('#peaks-values').innerText)")
	if text := b.text("#plan-moves .pager"); !strings.Contains(text, "1 to 12 of 40") {
		t.Errorf("the plan's pages: %q", text)
	}
	b.do(chromedp.Focus(chromedp.CSS("#plan-moves .pager button:last-child")))
	press(kb.Enter)
	b.await("document.querySelector('#plan-moves .pager').innerText.includes('13 to 24 of 40')")
	b.quiet(m.server.URL())
}

// look is a window in which pictures are taken.
type look struct {
	name          string
	width, height int64
	scale         float64
	colours       string
}

var looks = []look{
	{"light", 1440, 900, 1, "light"},
	{"dark", 1440, 900, 1, "dark"},
	{"phone", 390, 844, 2, "light"},
	{"phone-dark", 390, 844, 2, "dark"},
}

// open shows the page of a daemon in it.
func (l look) open(t *testing.T, m *madeUp) *tab {
	t.Helper()
	b := open(t, m.server.URL()+"/", l.width, l.height, l.colours)
	b.view(l.width, l.height, l.scale)
	return b
}

// TestLooks takes pictures of a usual cluster, light, dark and on a phone, and asserts what pictures cannot: nothing is wider
// than the window, and text stands out from what is behind it.
func TestLooks(t *testing.T) {
	m := listen(t, "127.0.0.1:0", "open sesame")
	nodes := someNodes(30)
	m.fill(nodes, 240, time.Minute, 14)
	for _, look := range append(slices.Clone(looks), look{"tablet", 820, 1180, 1, "light"}) {
		t.Run(look.name, func(t *testing.T) {
			b := look.open(t, m)
			b.await("document.querySelector('#heat-map canvas') && document.querySelector('#plan-moves tbody tr') && document.querySelector('#moves-done tbody tr')")
			b.await("performance.getEntriesByName('heat painted').length > 0")
			b.shot(look.name)
			if wide := eval[int64](b, "document.documentElement.scrollWidth"); wide > look.width {
				out := eval[[]string](b, "[...document.querySelectorAll('body *')].filter((e) => e.getBoundingClientRect().right > innerWidth + 1).slice(0, 5).map((e) => e.outerHTML.slice(0, 100))")
				t.Errorf("the page is %d wide in a window of %d: %q", wide, look.width, out)
			}
			lone := "[...document.querySelectorAll('td')].filter((cell) => getComputedStyle(cell).display === 'flex' && !cell.innerText.trim()).map((cell) => cell.dataset.title)"
			if titles := eval[[]string](b, lone); len(titles) > 0 {
				t.Errorf("titles without a value: %q", titles)
			}
			if dark := eval[bool](b, "getComputedStyle(document.body).backgroundColor.match(/\\d+/g).every((c) => c < 80)"); dark != (look.colours == "dark") {
				t.Errorf("dark: %v", dark)
			}
			for _, selector := range []string{"body", ".faint", "dd.note", "dd.value", ".chip.good", "th", ".key b", "button"} {
				if contrast := eval[float64](b, fmt.Sprintf(contrastOf, selector)); contrast < 4.5 {
					t.Errorf("%s: a contrast of %.1f", selector, contrast)
				}
			}
			if look.name == "light" { // the switch wins over the system
				b.do(chromedp.SetValue(chromedp.CSS("#theme"), "dark"))
				eval[any](b, "document.querySelector('#theme').dispatchEvent(new Event('change'))")
				b.await("getComputedStyle(document.body).backgroundColor.match(/\\d+/g).every((c) => c < 80)")
			}
			b.quiet(m.server.URL())
		})
	}
}

// TestZonesLook takes pictures of the zones in a bad night: the standby has taken over from a zone whose nodes do not answer,
// another one comes back, and the disk is full.
func TestZonesLook(t *testing.T) {
	m := listen(t, "127.0.0.1:0", "")
	nodes := someNodes(30)
	m.fill(nodes, 240, time.Minute, 14)
	looked := time.Now()
	one, none := 1.0, 0.0
	m.set(func() {
		m.options.Zones = &zones.Status{
			At: looked, Mode: zones.Act, Attribute: "zone", Phase: zones.NoStandby, Write: zones.Idle, Version: 12, Leader: "eu-central-1b", Due: looked.Add(20 * time.Minute),
			Judged: looked.Add(-4 * time.Minute), Unwritten: looked.Add(-6 * time.Minute), Isolated: "the nodes of 2 zones do not answer: it may be us who are cut off",
			Zones: []zones.ZoneStatus{
				{Zone: "eu-central-1a", Role: zones.Standby, Weight: &none, Nodes: 0, Members: 250, Health: zones.Health{
					Bad: []zones.Signal{zones.Probe, zones.Missing, zones.Copies}, Seen: []zones.Signal{zones.Probe, zones.Missing, zones.Copies}, ReadImpaired: true, WriteImpaired: true,
				}},
				{Zone: "eu-central-1b", Role: zones.Active, Weight: &one, Nodes: 250, Members: 250, Copies: es.ZoneCopies{Active: 12_480, Initializing: 12, Relocating: 3}},
				{Zone: "eu-central-1c", Role: zones.Active, Weight: &one, Nodes: 249, Members: 250, Copies: es.ZoneCopies{Active: 12_431}, Health: zones.Health{
					Seen: []zones.Signal{zones.Silent, zones.Latency},
				}},
			},
			Blocked: []zones.Check{{Guard: zones.GuardServed, Text: "no other zone has a copy of orders-2026.11/3, metrics-2026.11.30/17 and 214 more"}},
		}
	})
	for _, look := range looks {
		name := "zones-" + look.name
		t.Run(name, func(t *testing.T) {
			b := look.open(t, m)
			b.await("document.querySelectorAll('#zone-list tbody tr').length === 3 && performance.getEntriesByName('heat painted').length > 0")
			b.shot(name)
			b.part(name+"-panel", "#zones")
			if wide := eval[int64](b, "document.querySelector('#zones').scrollWidth - document.querySelector('#zones').clientWidth"); wide > 0 {
				t.Errorf("the zones are %d pixels wider than their panel", wide)
			}
			if hidden := eval[int64](b, "document.querySelector('#zone-list').scrollWidth - document.querySelector('#zone-list').clientWidth"); hidden > 0 {
				t.Errorf("%d pixels of the table of zones are out of sight", hidden)
			}
			for _, selector := range []string{"#zones .lead", "#zone-list .chip.good", "#zone-list .chip.warn", "#zone-list .chip.bad", "#zones-phase", "#zone-list .more", "#zones-notes .bad", "#zones-notes li:last-child"} {
				if contrast := eval[float64](b, fmt.Sprintf(contrastOf, selector)); contrast < 4.5 {
					t.Errorf("%s: a contrast of %.1f", selector, contrast)
				}
			}
			b.quiet(m.server.URL())
		})
	}
}

// TestSwitchingThemes: a page that was switched looks as one that was opened so, to the pixel, whoever switched it, and is not built anew.
func TestSwitchingThemes(t *testing.T) {
	m := listen(t, "127.0.0.1:0", "")
	m.fill(someNodes(30), 60, time.Minute, 40)
	opened := make(map[string]map[string]string)
	tabs := make(map[string]*tab)
	for _, colours := range []string{"light", "dark"} {
		b := open(t, m.server.URL()+"/", 1280, 900, colours)
		b.await("performance.getEntriesByName('heat painted').length > 0 && document.querySelector('#profile canvas') && document.querySelector('#moves-done tbody tr')")
		b.do(chromedp.Focus(chromedp.CSS("#heat-map")), chromedp.KeyEvent(kb.Home+kb.ArrowDown+kb.ArrowRight)) // the cursor, and its points on the lines
		b.await("!document.querySelector('.tip').hidden")
		tabs[colours], opened[colours] = b, b.pictures()
	}
	if len(differ(opened["light"], opened["dark"])) != len(opened["dark"]) || len(opened["dark"]) < 10 {
		t.Errorf("of %d pictures only %q have the colours of their theme", len(opened["dark"]), differ(opened["light"], opened["dark"]))
	}
	is := func(b *tab, want, how string) {
		t.Helper()
		if other := differ(b.pictures(), opened[want]); len(other) > 0 {
			t.Errorf("%s, these differ from a page that was opened so: %q", how, other)
		}
	}
	b := tabs["light"]
	eval[any](b, "document.querySelectorAll('canvas').forEach((canvas) => canvas.dataset.first = 'yes')")
	choose := func(theme string) {
		b.do(chromedp.SetValue(chromedp.CSS("#theme"), theme))
		eval[any](b, "document.querySelector('#theme').dispatchEvent(new Event('change'))")
	}
	choose("dark")
	is(b, "dark", "dark by choice")
	choose("light")
	is(b, "light", "light again")
	choose("")
	const dark = "getComputedStyle(document.body).backgroundColor.match(/\\d+/g).every((c) => c < 80)"
	b.system("dark")
	b.await(dark)
	is(b, "dark", "dark with the system")
	b.do(chromedp.KeyEvent(kb.ArrowRight + kb.ArrowLeft))
	is(b, "dark", "after the cursor has moved")
	b.system("light")
	b.await("!" + dark)
	is(b, "light", "light with the system")
	if anew := eval[int](b, "document.querySelectorAll('canvas:not([data-first])').length"); anew > 0 {
		t.Errorf("%d charts were built anew", anew)
	}
	for _, b := range tabs {
		b.quiet(m.server.URL())
	}
}

// TestTheChosenDimensionStandsOut: its line among the peaks is the thick one, whichever was thick before.
func TestTheChosenDimensionStandsOut(t *testing.T) {
	m := listen(t, "127.0.0.1:0", "")
	m.fill(someNodes(30), 60, time.Minute, 40)
	b := open(t, m.server.URL()+"/", 1280, 900, "light")
	b.await("document.querySelectorAll('#dimensions button').length === 3 && document.querySelector('#profile canvas')")
	b.await("performance.getEntriesByType('resource').filter((e) => e.name.includes('since=0') && e.responseEnd > 0).length >= 3")
	first := b.pictures()
	for i, want := range []bool{true, true, false} {
		b.do(chromedp.Click(chromedp.CSS(fmt.Sprintf("#dimensions button:nth-child(%d)", 3-i))))
		if now := differ(b.pictures(), first); slices.Contains(now, "peaks 0") != want || slices.Contains(now, "objective 0") {
			t.Errorf("with dimension %d chosen, these differ from the first: %q", 3-i, now)
		}
	}
	b.quiet(m.server.URL())
}

// contrastOf is the contrast of an element's text with what is behind it, as WCAG defines it.
const contrastOf = `(() => {
	const painter = document.createElement('canvas').getContext('2d', {willReadFrequently: true});
	const rgba = (colour) => { painter.clearRect(0, 0, 1, 1); painter.fillStyle = colour; painter.fillRect(0, 0, 1, 1); return painter.getImageData(0, 0, 1, 1).data; };
	const light = (colour) => [...rgba(colour)].slice(0, 3).map((c) => c / 255).map((c) => c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4)
		.reduce((sum, c, i) => sum + c * [0.2126, 0.7152, 0.0722][i], 0);
	const element = document.querySelector(%q);
	let behind = element;
	while (rgba(getComputedStyle(behind).backgroundColor)[3] === 0) behind = behind.parentElement;
	const [a, b] = [light(getComputedStyle(element).color), light(getComputedStyle(behind).backgroundColor)];
	return (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
})()`

// TestWaiting: an instance that does not lead says who does, and claims nothing about a cluster it does not look at.
func TestWaiting(t *testing.T) {
	m := listen(t, "127.0.0.1:0", "")
	m.waits, m.options.Cluster = "waiting: shardonnay-1 leads", cluster.Identity{}
	b := open(t, m.server.URL()+"/", 1280, 900, "light")
	b.await("document.querySelector('#notices').innerText.includes('shardonnay-1 leads')")
	if text := b.text("#notices"); strings.Contains(text, "first cycle") {
		t.Errorf("it is said to work as well: %s", text)
	}
	if text := b.text("#cluster-product"); text != "" {
		t.Errorf("it names a product: %s", text)
	}
	b.quiet(m.server.URL())
}

// TestAtScale: 750 nodes and a day of history. What it took is told, not judged, for that is a matter of the machine; judged
// is the work: how often the picture is made and how much is asked for and kept in the document.
func TestAtScale(t *testing.T) {
	m := listen(t, "127.0.0.1:0", "")
	nodes := someNodes(750)
	m.fill(nodes, 24*60-1, time.Minute, 300)
	b := open(t, m.server.URL()+"/", 1440, 1000, "light")
	b.await("performance.getEntriesByName('heat painted').length > 0 && document.querySelector('#plan-moves tbody tr') && document.querySelector('#moves-done tbody tr')")
	paint := eval[map[string]float64](b, `({
		first: performance.getEntriesByName('first-contentful-paint')[0]?.startTime ?? -1,
		heat: performance.getEntriesByName('heat painted')[0].startTime + performance.getEntriesByName('heat painted')[0].duration,
		image: Math.max(...performance.getEntriesByName('heat painted').map((e) => e.duration)),
		bytes: performance.getEntriesByType('resource').filter((e) => e.name.includes('history')).reduce((sum, e) => sum + e.encodedBodySize, 0),
	})`)
	t.Logf("first paint after %.0f ms, heat map after %.0f ms; its image took at most %.0f ms; %.0f KiB of history travelled", paint["first"], paint["heat"], paint["image"], paint["bytes"]/1024)
	b.shot("750-nodes")

	paints := func() int { return eval[int](b, "performance.getEntriesByName('heat painted').length") }
	// The other dimensions are asked for as soon as this one is painted, so that each is there when it is chosen.
	b.await("performance.getEntriesByType('resource').filter((e) => e.name.includes('since=0') && e.responseEnd > 0).length >= 3")
	before, full := paints(), b.asked("since=0")
	if before > 2 || full != 3 {
		t.Errorf("at the start the image was made %d times, a whole history of three dimensions asked for %d times", before, full)
	}
	idle := b.worked()
	moved := eval[map[string]float64](b, interaction)
	t.Logf("from a mouse move to the next frame: %.0f ms on average, %.0f ms at most; %.0f ms of processor time each", moved["mean"], moved["most"], (b.worked()-idle)/40)
	if after := paints(); after != before {
		t.Errorf("moving the cursor made the image %d times anew", after-before)
	}
	if elements := eval[int](b, "document.querySelectorAll('*').length"); elements > 1500 {
		t.Errorf("%d elements are in the document", elements)
	}

	// Zoom by dragging a box: one image more, and every node of the box has its name.
	box := eval[map[string]float64](b, "document.querySelector('#heat-map .u-over').getBoundingClientRect().toJSON()")
	x, y := box["left"]+0.3*box["width"], box["top"]+0.02*box["height"]
	mouse := func(typ input.DispatchMouseEventType, x, y float64) chromedp.Action[chromedp.Void] {
		return chromedp.MouseEvent(typ, x, y, chromedp.ButtonLeft, chromedp.ClickCount(1))
	}
	b.do(mouse(input.DispatchMouseEventTypeMousePressed, x, y), mouse(input.DispatchMouseEventTypeMouseMoved, x+100, y+10), mouse(input.DispatchMouseEventTypeMouseMoved, x+300, y+30),
		mouse(input.DispatchMouseEventTypeMouseReleased, x+300, y+30))
	b.await("!document.querySelector('#reset').hidden")
	b.await(fmt.Sprintf("performance.getEntriesByName('heat painted').length > %d", before))
	if after := paints(); after > before+2 {
		t.Errorf("zooming made the image %d times", after-before)
	}
	b.shot("750-nodes-zoomed")
	b.do(chromedp.Click(chromedp.CSS("#reset")))
	b.await("document.querySelector('#reset').hidden")

	// Everything else a person may do here, without the pointer having been near before; some times over, for a machine has moods.
	acts := []struct {
		name, do, until string
		cells           int // how often the cells are found anew; colours alone are another matter
	}{
		{"another dimension", "document.querySelector('#dimensions button:nth-child(3)').click()", "pressed() === 'disk'", 1},
		{"the next", "document.querySelector('#dimensions button:nth-child(2)').click()", "pressed() === 'index'", 1},
		{"back to the first", "document.querySelector('#dimensions button:nth-child(1)').click()", "pressed() === 'search'", 1},
		{"another order", "choose('#order', 'now')", "true", 1},
		{"order by zone", "choose('#order', 'zone')", "true", 1},
		{"a dark page", "choose('#theme', 'dark')", "true", 0},
		{"a light page", "choose('#theme', 'light')", "true", 0},
		{"a key that zooms", "key('+')", "!document.querySelector('#reset').hidden", 1},
		{"a key that shows all", "key('Escape')", "document.querySelector('#reset').hidden", 1},
	}
	took, worked := make([][]float64, len(acts)), make([][]float64, len(acts))
	for range 5 {
		for i, act := range acts {
			idle := b.worked()
			did := eval[map[string]float64](b, fmt.Sprintf(acting, act.do, act.until))
			took[i], worked[i] = append(took[i], did["took"]), append(worked[i], b.worked()-idle)
			if cells := int(did["cells"]); cells != act.cells {
				t.Errorf("%s: a million loads were gone through %d times, not %d", act.name, cells, act.cells)
			}
		}
	}
	for i, act := range acts {
		slices.Sort(took[i])
		slices.Sort(worked[i])
		t.Logf("%s: %.0f ms until the picture is another (%.0f at most), %.0f ms of processor time (%.0f at most)", act.name, took[i][2], took[i][4], worked[i][2], worked[i][4])
	}
	if got := b.asked("since=0"); got != full {
		t.Errorf("choosing dimensions asked for %d whole histories more", got-full)
	}
	b.do(chromedp.SetValue(chromedp.CSS("#order"), "zone"))
	eval[any](b, "document.querySelector('#order').dispatchEvent(new Event('change'))")
	b.shot("750-nodes-by-zone")

	// A cycle more is asked for alone.
	asked, whole := b.asked("history"), b.asked("since=0")
	m.cycle(time.Now(), nodes, func(int, int) float64 { return 1 }, somePlan(nodes, 0, 1.01))
	b.await("document.querySelector('#plan-worth').textContent.includes('Nothing is planned')")
	b.await("/search 1\\.00×/.test(document.querySelector('#peaks-values').innerText)")
	if b.asked("since=0") != whole || b.asked("history") == asked {
		t.Errorf("for one cycle more the history was asked for %d times, %d times whole", b.asked("history")-asked, b.asked("since=0")-whole)
	}
	b.quiet(m.server.URL())
}

// acting does something that makes another picture, and measures until the frame in which it is seen.
const acting = `new Promise((done) => {
	const pressed = () => document.querySelector('#dimensions [aria-pressed=true]')?.textContent;
	const choose = (list, value) => { const e = document.querySelector(list); e.value = value; e.dispatchEvent(new Event('change')); };
	const key = (name) => document.querySelector('#heat-map').dispatchEvent(new KeyboardEvent('keydown', {key: name, bubbles: true}));
	performance.clearMeasures();
	const count = (what) => performance.getEntriesByName(what).length;
	const start = performance.now();
	%s;
	const look = () => %s && count('heat painted') > 0
		? setTimeout(() => done({took: performance.now() - start, cells: count('heat cells')})) : requestAnimationFrame(look);
	requestAnimationFrame(look);
})`

// interaction moves the mouse over the heat map and measures until the frame after has been made.
const interaction = `(async () => {
	const over = document.querySelector('#heat-map .u-over');
	over.scrollIntoView({block: 'center'});
	await new Promise((done) => requestAnimationFrame(() => setTimeout(done)));
	const box = over.getBoundingClientRect();
	over.dispatchEvent(new MouseEvent('mouseenter', {clientX: box.left + 5, clientY: box.top + 5}));
	const took = [];
	for (let i = 0; i < 40; i++) {
		const start = performance.now();
		over.dispatchEvent(new MouseEvent('mousemove', {clientX: box.left + (0.02 * i + 0.1) * box.width, clientY: box.top + (0.01 * i + 0.3) * box.height, bubbles: true}));
		await new Promise((done) => requestAnimationFrame(() => setTimeout(done)));
		took.push(performance.now() - start);
	}
	return {mean: took.reduce((a, b) => a + b) / took.length, most: Math.max(...took)};
})()`

// TestAnswersAreWhatThePageShows: the figures on the page are those the daemon answers with, digit for digit.
func TestAnswersAreWhatThePageShows(t *testing.T) {
	m := listen(t, "127.0.0.1:0", "")
	nodes := someNodes(12)
	made := somePlan(nodes, 5, 3.127)
	m.cycle(time.Now(), nodes, func(n, d int) float64 { return float64(1 + (n+d)%4) }, made)
	b := open(t, m.server.URL()+"/", 1280, 900, "light")
	b.await("document.querySelector('#plan-moves tbody tr') && document.querySelector('#heat-map canvas')")
	if missing := has(b.text("#figures"), "3.13×", "1.35× after the plan, best known 1.04×", "0.31", "0.052 after the plan; none is below 0.0507, gap 2.5 %"); missing != nil {
		t.Errorf("the figures lack %q:\n%s", missing, b.text("#figures"))
	}
	if missing := has(b.text("#balance"), "search", "3.13×", "1.35×", "1.04×"); missing != nil {
		t.Errorf("the balance lacks %q:\n%s", missing, b.text("#balance"))
	}
	if missing := has(b.text("#terms"), "balance.search", "0.21", "0.03", "lower bound", "0.0507"); missing != nil || strings.Contains(b.text("#terms"), "spread") {
		t.Errorf("the terms lack %q:\n%s", missing, b.text("#terms"))
	}
	for i := range made.Moves {
		want := &made.Moves[i]
		row := b.text(fmt.Sprintf("#plan-moves tbody tr:nth-child(%d)", i+1))
		if missing := has(row, fmt.Sprintf("%s/%d", want.Index, want.Shard), want.From.Name, want.To.Name, want.Text, "balance", fmt.Sprintf("%d", want.Bytes>>30)); missing != nil {
			t.Errorf("move %d lacks %q: %s", want.Seq, missing, row)
		}
	}
	for i := range made.Verdicts {
		want := &made.Verdicts[i]
		row := b.text(fmt.Sprintf("#verdict-list tbody tr:nth-child(%d)", i+1))
		if missing := has(row, append([]string{want.Text, want.Advice}, want.Binding...)...); missing != nil {
			t.Errorf("the verdict of %s lacks %q: %s", want.Subject, missing, row)
		}
	}
	if missing := has(b.text("#peaks-values"), "search 1.60×", "index 1.60×"); missing != nil { // 4 of a mean of 2.5
		t.Errorf("the peaks lack %q: %s", missing, b.text("#peaks-values"))
	}
	b.quiet(m.server.URL())
}

// get asks the daemon for JSON, past the page.
func get[T any](t *testing.T, b *tab, path string) (value T) {
	t.Helper()
	text := eval[string](b, fmt.Sprintf("fetch(%q).then((answer) => answer.text())", path))
	if err := json.Unmarshal([]byte(text), &value); err != nil {
		t.Fatalf("%s: %v", path, err)
	}
	return value
}
