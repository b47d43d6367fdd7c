// Package page holds the files of the daemon's page, as web/ was last built into them.
//
// They are committed, so that building the daemon needs no Node.js; "make check" proves that they are current where it is
// there. What the page shows it asks of httpapi, which serves both.
package page

import (
	"embed"
	"io/fs"
)

//go:embed files
var files embed.FS

// Files are index.html and what it refers to, all in one folder.
func Files() fs.FS {
	sub, err := fs.Sub(files, "files")
	if err != nil {
		panic("page: the folder's name is valid: " + err.Error())
	}
	return sub
}
