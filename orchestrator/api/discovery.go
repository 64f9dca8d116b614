package api

import (
	"net/http"

	"github.com/labstack/echo/v4"

	"rideshare/internal/httpapi"
)

// nodeID names this node to rqlite's clients. To them there is one node, which
// is the leader: any orchestrator takes any request.
const nodeID = "orchestrator"

// node is a node as rqlite's /nodes tells of it.
type node struct {
	ID        string `json:"id"`
	APIAddr   string `json:"api_addr"`
	Addr      string `json:"addr"`
	Voter     bool   `json:"voter"`
	Reachable bool   `json:"reachable"`
	Leader    bool   `json:"leader"`
}

// self is this node under the address that the client used, which is the one
// that the client can reach.
func self(c echo.Context) node {
	host := c.Request().Host
	return node{ID: nodeID, APIAddr: "http://" + host, Addr: host, Voter: true, Reachable: true, Leader: true}
}

// nodes answers GET /nodes, which rqlite's clients ask to find the leader. ver=2
// asks for a list in place of an object.
func (a *API) nodes(c echo.Context) error {
	if c.QueryParam("ver") == "2" {
		return httpapi.JSON(c, http.StatusOK, map[string][]node{"nodes": {self(c)}})
	}
	return httpapi.JSON(c, http.StatusOK, map[string]node{nodeID: self(c)})
}

// status answers GET /status with the part of rqlite's that its clients read.
func (a *API) status(c echo.Context) error {
	me := self(c)
	return httpapi.JSON(c, http.StatusOK, map[string]any{
		"store": map[string]any{
			"node_id": me.ID,
			"leader":  map[string]string{"node_id": me.ID, "addr": me.Addr},
			"nodes":   []map[string]any{{"id": me.ID, "addr": me.Addr, "suffrage": "voter"}},
		},
	})
}
