// Package page looks at the daemon's page in a headless Chromium: at the running demo, and at a daemon that is made up, with
// names that want to be code, with a day of 750 nodes, gone and back.
//
// Screenshots are artifacts of the tests: go test ./test/page -artifacts -outputdir FOLDER keeps them.
package page
