package orchestratorapi

import (
	"net/http"

	"github.com/labstack/echo/v4"

	"rideshare/internal/httpapi"
)

// nodeID is the node's name for rqlite's clients. They see a single node, which is the
// leader, since any orchestrator serves any request.
const nodeID = "orchestrator"

// node is a node in the format of rqlite's /nodes.
type node struct {
	ID        string `json:"id"`
	APIAddr   string `json:"api_addr"`
	Addr      string `json:"addr"`
	Version   string `json:"version"`
	Voter     bool   `json:"voter"`
	Reachable bool   `json:"reachable"`
	Leader    bool   `json:"leader"`
}

// self returns this node with the address that the client used, since the client
// can reach that address.
func (a *API) self(c echo.Context) node {
	scheme, host := "http://", c.Request().Host
	if c.Request().TLS != nil {
		scheme = "https://"
	}
	return node{ID: nodeID, APIAddr: scheme + host, Addr: host, Version: a.cfg.Version, Voter: true, Reachable: true, Leader: true}
}

// nodes answers GET /nodes, which rqlite's clients use to find the leader. With ver=2
// the answer is a list instead of an object.
func (a *API) nodes(c echo.Context) error {
	if c.QueryParam("ver") == "2" {
		return answerState(c, map[string][]node{"nodes": {a.self(c)}})
	}
	return answerState(c, map[string]node{nodeID: a.self(c)})
}

// answerState answers with v, indented if the client asks for it.
func answerState(c echo.Context, v any) error {
	if c.QueryParams().Has("pretty") {
		return c.JSONPretty(http.StatusOK, v, prettyIndent)
	}
	return httpapi.JSONExactly(c, http.StatusOK, v)
}
