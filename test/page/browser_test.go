package page

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/performance"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
)

// browser is one Chromium for all tests, with a profile of its own that nobody has used before.
var browser = sync.OnceValues(func() (context.Context, error) {
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		path, err := exec.LookPath(name)
		if err != nil {
			continue
		}
		allocator, end := chromedp.NewExecAllocator(context.Background(),
			chromedp.ExecPath(path), chromedp.UserDataDir(filepath.Join(scratch, "profile")), chromedp.Headless, chromedp.NoSandbox, chromedp.DisableGPU,
			chromedp.NoFirstRun, chromedp.NoDefaultBrowserCheck, chromedp.Flag("disable-quic", true), chromedp.Flag("disable-background-networking", true),
			chromedp.Flag("disable-component-update", true), chromedp.Flag("disable-sync", true), chromedp.Flag("disable-dev-shm-usage", true),
			chromedp.Flag("force-color-profile", "srgb"), chromedp.Flag("hide-scrollbars", true),
		)
		ctx, cancel := chromedp.NewContext(allocator)
		closeBrowser = func() { cancel(); end() }
		return ctx, chromedp.Do(ctx) // starts it
	}
	return nil, exec.ErrNotFound
})

var (
	scratch      string // removed when the tests end
	closeBrowser = func() {}
)

func TestMain(m *testing.M) {
	os.Exit(func() int {
		var err error
		if scratch, err = os.MkdirTemp("", "shardonnay-page-"); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		defer os.RemoveAll(scratch)
		defer func() { closeBrowser() }()
		return m.Run()
	}())
}

// tab is one page that is looked at, and everything it said and asked.
type tab struct {
	t   *testing.T
	ctx context.Context

	mu        sync.Mutex
	complaint []string // errors of the console, the policy's among them
	requests  []string // URLs
}

// open opens a page in a window of that size, in the colours of a system that is light or dark.
func open(t *testing.T, url string, width, height int64, colours string) *tab {
	t.Helper()
	parent, err := browser()
	if err != nil {
		if os.Getenv("CI") != "" {
			t.Fatalf("no Chromium: %v; scripts/install-deps.sh test installs it", err)
		}
		t.Skipf("THE PAGE IS NOT TESTED: no Chromium: %v; scripts/install-deps.sh test installs it", err)
	}
	ctx, cancel := chromedp.NewContext(parent, chromedp.WithNewBrowserContext())
	t.Cleanup(cancel)
	ctx, end := context.WithTimeout(ctx, 3*time.Minute)
	t.Cleanup(end)
	b := &tab{t: t, ctx: ctx}
	b.must(chromedp.Listen(ctx, b.hear))
	_, err = chromedp.Call(ctx, network.Enable, network.EnableParams{})
	b.must(err)
	_, err = chromedp.Call(ctx, performance.Enable, performance.EnableParams{TimeDomain: performance.EnableTimeDomainThreadTicks})
	b.must(err)
	b.view(width, height, 1)
	b.system(colours)
	b.do(chromedp.Navigate(url))
	return b
}

func (b *tab) hear(event any) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch e := event.(type) {
	case *network.EventRequestWillBeSent:
		b.requests = append(b.requests, e.Request.URL)
	case *runtime.EventExceptionThrown:
		text, _ := json.Marshal(e.ExceptionDetails)
		b.complaint = append(b.complaint, string(text))
	case *runtime.EventConsoleAPICalled:
		if e.Type == runtime.ConsoleAPICalledTypeError || e.Type == runtime.ConsoleAPICalledTypeWarning || e.Type == runtime.ConsoleAPICalledTypeAssert {
			text, _ := json.Marshal(e.Args)
			b.complaint = append(b.complaint, string(text))
		}
	case *log.EventEntryAdded:
		if e.Entry.Level == log.EntryLevelError || e.Entry.Level == log.EntryLevelWarning {
			b.complaint = append(b.complaint, fmt.Sprintf("%s: %s %s", e.Entry.Source, e.Entry.Text, e.Entry.URL))
		}
	}
}

// quiet fails where the page complained, or asked anybody but its daemon.
func (b *tab) quiet(url string) {
	b.t.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, text := range b.complaint {
		b.t.Errorf("the console says %s", text)
	}
	for _, request := range b.requests {
		if !strings.HasPrefix(request, url+"/") && !strings.HasPrefix(request, "data:") {
			b.t.Errorf("the page asked for %s", request)
		}
	}
	if len(b.requests) == 0 {
		b.t.Error("the page asked for nothing: the requests were not seen")
	}
}

// worked is the processor time that the page's thread has taken so far, in milliseconds: a measure that other programs disturb
// less than the clock.
func (b *tab) worked() float64 {
	b.t.Helper()
	metrics, err := chromedp.Call(b.ctx, performance.GetMetrics, cdp.Empty{})
	b.must(err)
	for _, m := range metrics.Metrics {
		if m.Name == "TaskDuration" {
			return 1000 * m.Value
		}
	}
	b.t.Fatal("the browser does not tell how long it worked")
	return 0
}

// asked counts the requests so far that contain the text.
func (b *tab) asked(text string) (n int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, request := range b.requests {
		if strings.Contains(request, text) {
			n++
		}
	}
	return n
}

func (b *tab) must(err error) {
	b.t.Helper()
	if err != nil {
		b.t.Fatal(err)
	}
}

func (b *tab) do(steps ...chromedp.Action[chromedp.Void]) {
	b.t.Helper()
	b.must(chromedp.Do(b.ctx, steps...))
}

func (b *tab) view(width, height int64, scale float64) {
	b.t.Helper()
	b.do(chromedp.EmulateViewport(width, height, chromedp.EmulateScale(scale)))
}

// system makes the system's colours light or dark.
func (b *tab) system(colours string) {
	b.t.Helper()
	_, err := chromedp.Call(b.ctx, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
		Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: colours}},
	})
	b.must(err)
}

// pictures are what is drawn, once the next frame has been, by the element it is in: every canvas, and the colours of the keys
// to the lines and of the points on them.
func (b *tab) pictures() map[string]string {
	b.t.Helper()
	return eval[map[string]string](b, `new Promise((done) => requestAnimationFrame(() => setTimeout(() => {
		const all = {};
		const put = (element, value) => {
			const id = element.closest('[id]').id;
			for (let i = 0; ; i++) if (!all[id + ' ' + i]) return all[id + ' ' + i] = value;
		};
		document.querySelectorAll('canvas').forEach((canvas) => put(canvas, canvas.toDataURL()));
		document.querySelectorAll('.key i').forEach((line) => put(line, getComputedStyle(line).backgroundColor));
		document.querySelectorAll('.u-cursor-pt').forEach((point) => put(point, getComputedStyle(point).backgroundColor + getComputedStyle(point).borderColor));
		done(all);
	})))`)
}

// differ are the pictures that differ, or are in one only.
func differ(a, b map[string]string) (names []string) {
	for name := range a {
		if a[name] != b[name] {
			names = append(names, name)
		}
	}
	for name := range b {
		if _, ok := a[name]; !ok {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// eval is the value of an expression in the page, a promise's once it is kept.
func eval[T any](b *tab, expression string) T {
	b.t.Helper()
	value, err := chromedp.Run(b.ctx, chromedp.Evaluate[T](expression, chromedp.EvalAwaitPromise))
	if err != nil {
		b.t.Fatalf("%s: %v", expression, err)
	}
	return value
}

// await waits until an expression holds. It looks at every frame; the policy forbids the page itself to build code from text.
func (b *tab) await(expression string) {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, time.Minute)
	defer cancel()
	wait := "new Promise((done) => { const look = () => (" + expression + ") ? done(true) : setTimeout(look, 20); look(); })"
	if _, err := chromedp.Run(ctx, chromedp.Evaluate[bool](wait, chromedp.EvalAwaitPromise)); err != nil {
		b.t.Fatalf("within a minute this did not come true: %s (%v). The page says:\n%s", expression, err, b.text("body"))
	}
}

// text is what an element says, as a person sees it.
func (b *tab) text(selector string) string {
	b.t.Helper()
	return eval[string](b, fmt.Sprintf("document.querySelector(%q)?.innerText ?? ''", selector))
}

// shot keeps a picture of the whole page among the test's artifacts.
func (b *tab) shot(name string) {
	b.t.Helper()
	b.keep(name, chromedp.FullScreenshot(100))
}

// part keeps a picture of one element, where that of the page is too small to read.
func (b *tab) part(name, selector string) {
	b.t.Helper()
	b.keep(name, chromedp.Screenshot(chromedp.CSS(selector)))
}

func (b *tab) keep(name string, look chromedp.Action[[]byte]) {
	b.t.Helper()
	picture, err := chromedp.Run(b.ctx, look)
	b.must(err)
	file := filepath.Join(b.t.ArtifactDir(), name+".png")
	b.must(os.WriteFile(file, picture, 0o644))
	b.t.Logf("screenshot %s", file)
}
