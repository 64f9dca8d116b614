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
	Voter     bool   `json:"voter"`
	Reachable bool   `json:"reachable"`
	Leader    bool   `json:"leader"`
}

// self returns this node with the address that the client used, since the client
// can reach that address.
func self(c echo.Context) node {
	host := c.Request().Host
	return node{ID: nodeID, APIAddr: "http://" + host, Addr: host, Voter: true, Reachable: true, Leader: true}
}

// nodes answers GET /nodes, which rqlite's clients use to find the leader. With ver=2
// the answer is a list instead of an object.
func (a *API) nodes(c echo.Context) error {
	if c.QueryParam("ver") == "2" {
		return httpapi.JSON(c, http.StatusOK, map[string][]node{"nodes": {self(c)}})
	}
	return httpapi.JSON(c, http.StatusOK, map[string]node{nodeID: self(c)})
}

// status answers GET /status with those fields of rqlite's answer that rqlite's clients read.
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
