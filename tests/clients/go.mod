module rideshare/tests/clients

go 1.26.0

tool (
	github.com/rqlite/rqlite/v8/cmd/rqbench
	github.com/rqlite/rqlite/v8/cmd/rqlite
)

require github.com/rqlite/gorqlite v0.0.0-20260504155303-50d445fd0ab9

require (
	github.com/labstack/gommon v0.4.2 // indirect
	github.com/mattn/go-colorable v0.1.14 // indirect
	github.com/mattn/go-isatty v0.0.20 // indirect
	github.com/mattn/go-runewidth v0.0.16 // indirect
	github.com/mkideal/cli v0.2.7 // indirect
	github.com/mkideal/expr v0.1.0 // indirect
	github.com/mkideal/pkg v0.1.3 // indirect
	github.com/peterh/liner v1.2.2 // indirect
	github.com/rivo/uniseg v0.4.7 // indirect
	github.com/rqlite/rqlite/v8 v8.43.4 // indirect
	golang.org/x/crypto v0.41.0 // indirect
	golang.org/x/sys v0.35.0 // indirect
	golang.org/x/term v0.34.0 // indirect
)
