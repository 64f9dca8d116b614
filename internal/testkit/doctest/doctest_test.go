package doctest_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"rideshare/internal/testkit/doctest"
)

// pets is a small document. Its parts are those that the documents of the services have.
const pets = `{
  "openapi": "3.1.0", "info": {"title": "pets", "version": "1"},
  "paths": {
    "/pets/{id}": {
      "get": {
        "parameters": [
          {"name": "id", "in": "path", "required": true, "schema": {"type": "integer"}, "example": 7},
          {"name": "deep", "in": "query", "schema": {"enum": ["yes"]}}
        ],
        "responses": {
          "200": {"description": "a pet", "headers": {"X-Age": {"required": true, "schema": {"type": "integer"}}},
            "content": {"application/json": {"schema": {"$ref": "#/components/schemas/Pet"}, "example": {"name": "rex"}}}},
          "204": {"description": "none"},
          "404": {"$ref": "#/components/responses/Other"},
          "default": {"$ref": "#/components/responses/Other"}
        }
      },
      "put": {
        "x-role": "write", "security": [{"basic": []}],
        "parameters": [{"name": "id", "in": "path", "required": true, "schema": {"type": "integer"}, "example": 7}],
        "requestBody": {"required": true, "content": {
          "application/json": {"schema": {"$ref": "#/components/schemas/Pet"}}, "text/plain": {"schema": {"type": "string"}}}},
        "responses": {"204": {"description": "done"}, "401": {"$ref": "#/components/responses/Other"}}
      }
    },
    "/pets/all": {"get": {"responses": {"200": {"description": "lines", "content": {"application/x-ndjson": {"schema": {"$ref": "#/components/schemas/Pet"}}}}}}}
  },
  "components": {
    "securitySchemes": {"basic": {"type": "http", "scheme": "basic"}},
    "schemas": {"Pet": {"type": "object", "required": ["name"], "properties": {"name": {"type": "string"}}},
      "Empty": {"type": "object", "additionalProperties": false}},
    "responses": {"Other": {"description": "refused", "x-statuses": [408], "content": {"application/json": {"schema": {"$ref": "#/components/schemas/Empty"}}}}}
  }
}`

func parse(t *testing.T) *doctest.Document {
	t.Helper()
	d, err := doctest.Parse([]byte(pets))
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// An exchange that the document does not allow is an error that names what is wrong; any other one is not.
func TestCheck_FindsWhatTheDocumentDoesNotAllow(t *testing.T) {
	d := parse(t)
	const kind, age = "application/json", "3"
	for _, tc := range []struct {
		name, call, sent  string
		status            int
		contentType, age  string
		got, want, header string
	}{
		{name: "Pet", call: "GET /pets/7?deep=yes", status: 200, contentType: kind, age: age, got: `{"name":"rex"}`},
		{name: "Charset", call: "GET /pets/7", status: 200, contentType: kind + "; charset=utf-8", age: age, got: `{"name":"rex"}`},
		{name: "Head", call: "HEAD /pets/7", status: 200, contentType: kind, age: age},
		{name: "None", call: "GET /pets/7", status: 204},
		{name: "Refused", call: "GET /pets/x?deep=no", status: 404, contentType: kind, got: `{}`},
		{name: "RefusedAsEverywhere", call: "GET /pets/x", status: 408, contentType: kind, got: `{}`},
		{name: "Put", call: "PUT /pets/7", sent: `{"name":"rex"}`, status: 204},
		{name: "PutText", call: "PUT /pets/7", sent: `rex`, header: "text/plain", status: 204},
		{name: "Lines", call: "GET /pets/all", status: 200, contentType: "application/x-ndjson", got: `{"name":"rex"}` + "\n" + `{"name":"tom"}` + "\n"},
		{name: "Options", call: "OPTIONS /pets/7", status: 204},
		{name: "OtherMethod", call: "POST /pets/7", status: 405, contentType: kind, got: `{}`},
		{name: "OtherPath", call: "GET /x", status: 404, contentType: kind, got: `{}`},

		{name: "Status", call: "GET /pets/7", status: 201, contentType: kind, want: "status 201"},
		{name: "StatusNotOfDefault", call: "GET /pets/7", status: 500, contentType: kind, got: "{}", want: "status 500"},
		{name: "Type", call: "GET /pets/7", status: 200, contentType: "text/html", age: age, want: "type text/html"},
		{name: "NoType", call: "GET /pets/7", status: 200, age: age, want: "Content-Type"},
		{name: "NoJSON", call: "GET /pets/7", status: 200, contentType: kind, age: age, got: `{"name":`, want: "no JSON"},
		{name: "MissingMember", call: "GET /pets/7", status: 200, contentType: kind, age: age, got: `{}`, want: "name"},
		{name: "UnknownMember", call: "GET /pets/7", status: 200, contentType: kind, age: age, got: `{"name":"rex","legs":4}`, want: "legs"},
		{name: "MissingHeader", call: "GET /pets/7", status: 200, contentType: kind, got: `{"name":"rex"}`, want: "X-Age is missing"},
		{name: "WrongHeader", call: "GET /pets/7", status: 200, contentType: kind, age: "old", got: `{"name":"rex"}`, want: "X-Age"},
		{name: "BodyWhereNoneIs", call: "GET /pets/7", status: 204, got: "x", want: "want none"},
		{name: "BodyOfHead", call: "HEAD /pets/7", status: 200, contentType: kind, age: age, got: `{"name":"rex"}`, want: "HEAD"},
		{name: "Line", call: "GET /pets/all", status: 200, contentType: "application/x-ndjson", got: `{"name":"rex"}` + "\n" + `{"legs":4}`, want: "line"},
		{name: "PathParameter", call: "GET /pets/x", status: 204, want: "path parameter id"},
		{name: "Query", call: "GET /pets/7?deep=no", status: 204, want: "query parameter deep"},
		{name: "UnknownQuery", call: "GET /pets/7?high=1", status: 204, want: "high is not in the document"},
		{name: "RequestBody", call: "PUT /pets/7", sent: `{"legs":4}`, status: 204, want: "legs"},
		{name: "RequestBodyMissing", call: "PUT /pets/7", status: 204, want: "body is missing"},
		{name: "RefusalBody", call: "GET /pets/x", status: 404, contentType: kind, got: `{"why":1}`, want: "why"},
		{name: "UnknownPathAnswered", call: "GET /x", status: 200, contentType: kind, got: `{}`, want: "no such call"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			method, target, _ := strings.Cut(tc.call, " ")
			u, err := url.Parse(target)
			if err != nil {
				t.Fatal(err)
			}
			answer := http.Header{"X-Request-Id": {"1"}, "Allow": {"GET"}, "Content-Type": {tc.contentType}}
			if tc.age != "" {
				answer.Set("X-Age", tc.age)
			}
			err = d.Check(doctest.Exchange{
				Method: method, URL: u, Request: http.Header{"Content-Type": {tc.header}}, Sent: []byte(tc.sent), Status: tc.status, Answer: answer, Got: []byte(tc.got),
			})
			if tc.want == "" && err != nil || tc.want != "" && (err == nil || !strings.Contains(err.Error(), tc.want)) {
				t.Errorf("got %v, want an error with %q", err, tc.want)
			}
		})
	}
	if err := d.Check(doctest.Exchange{Method: "GET", URL: &url.URL{Path: "/pets/7"}, Status: 204}); err == nil || !strings.Contains(err.Error(), "X-Request-Id") {
		t.Errorf("without a request id: got %v", err)
	}
}

// A document that is not valid, or contradicts itself, is refused.
func TestParse_WrongDocument_IsAnError(t *testing.T) {
	parse(t)
	for old, wrong := range map[string]string{
		`"openapi": "3.1.0"`:                          `"openapi": "3.0.3"`,
		`"title": "pets", `:                           ``,
		`"example": {"name": "rex"}`:                  `"example": {"nam": "rex"}`,
		`"schema": {"type": "integer"}, "example": 7`: `"schema": {"type": "integer"}, "example": "x"`,
		`"x-role": "write", `:                         ``,
		`"#/components/schemas/Empty"`:                `"#/components/schemas/Full"`,
		`"properties": {"name": {"type": "string"}}`:  `"properties": {"name": {"type": "strin"}}`,
	} {
		text := strings.Replace(pets, old, wrong, 1)
		if text == pets {
			t.Fatalf("the document has no %s", old)
		}
		if _, err := doctest.Parse([]byte(text)); err == nil {
			t.Errorf("with %s: got no error", wrong)
		}
	}
}

// A Recorder compares what clients send and get, when the answer has been read, or closed before its end.
func TestRecorder_TellsOfEachExchangeOnce(t *testing.T) {
	d := parse(t)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("X-Request-Id", "1")
		w.Header().Set("X-Age", "3")
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, r.URL.Query().Get("deep"))
	}))
	t.Cleanup(server.Close)
	for _, tc := range []struct {
		path, want string
		closed     bool
	}{
		{path: `/pets/7?deep=yes`, want: "no JSON"},
		{path: `/pets/x?deep=yes`, closed: true, want: "path parameter"},
		{path: `/elsewhere`},
	} {
		var recorder doctest.Recorder
		documentOf := func(u *url.URL) *doctest.Document {
			if u.Path == "/elsewhere" {
				return nil
			}
			return d
		}
		base := &http.Transport{DisableKeepAlives: true}
		client := &http.Client{Transport: &doctest.Transport{Transport: base, Recorder: &recorder, DocumentOf: documentOf}}
		for range 2 {
			resp, err := client.Get(server.URL + tc.path)
			if err != nil {
				t.Fatal(err)
			}
			if !tc.closed {
				if _, err = io.ReadAll(resp.Body); err != nil {
					t.Fatal(err)
				}
			}
			if err = resp.Body.Close(); err != nil {
				t.Fatal(err)
			}
		}
		err := recorder.Problem()
		if tc.want == "" && err != nil || tc.want != "" && (err == nil || !strings.Contains(err.Error(), tc.want) || !strings.HasPrefix(err.Error(), "1 ")) {
			t.Errorf("%s: got %v, want one error with %q", tc.path, err, tc.want)
		}
	}
}
