// SQL: an editor, results as tables, and the schema.

import { call, query } from './api.js';
import { download, field, h, milliseconds, number, outcome, panel, table } from './ui.js';
import { split } from './split.js';

const remembered = 'rideshare.statements'; // in the browser only
const longest = 50;
const longestText = 64 << 10; // characters; a longer text is not remembered
const page = 200; // rows that are shown at once

function history() {
  try {
    return JSON.parse(localStorage.getItem(remembered)) ?? [];
  } catch {
    return [];
  }
}
// remember lets the oldest texts go while there is no room. Without a store nothing is remembered: SQL runs all the same.
function remember(text) {
  if (text.length > longestText) return;
  for (const all = [text, ...history().filter((one) => one !== text)].slice(0, longest); all.length > 0; all.pop()) {
    try {
      localStorage.setItem(remembered, JSON.stringify(all));
      return;
    } catch {
      // Full or blocked: try fewer.
    }
  }
}

let draft = null; // the text of the editor while another view is shown
// forget removes what a user has typed, so that the next user of the browser does not see it.
export function forget() {
  draft = null;
  try {
    localStorage.removeItem(remembered);
  } catch {
    // Blocked: nothing is remembered.
  }
}

const show = (value) => value === null ? h('i', { class: 'muted' }, 'NULL') : typeof value === 'object' ? JSON.stringify(value) : String(value);

// csv follows the shell: NULL is an empty field, but not an empty line, since readers drop empty lines.
function csv(result) {
  const none = result.columns.length === 1 ? '""' : '';
  const cell = (value) => value === null ? none : /[",\r\n]|^\s|\s$/.test(String(value)) || value === '' ? `"${String(value).replaceAll('"', '""')}"` : String(value);
  return [result.columns, ...result.values ?? []].map((row) => row.map(cell).join(',')).join('\r\n') + '\r\n';
}

// json writes the objects by hand, since columns may have equal names.
function json(result) {
  const names = result.columns.map((name) => JSON.stringify(name));
  const rows = (result.values ?? []).map((row) => '{' + row.map((value, i) => `${names[i]}:${JSON.stringify(value)}`).join() + '}');
  return '[' + rows.join(',\n') + ']\n';
}

// resultOf shows the result of one statement.
function resultOf(statement, result) {
  if (result.error) return h('div', { class: 'result' }, h('pre', {}, statement), h('p', { class: 'outcome bad' }, result.error));
  if (!result.columns) {
    const changed = result.rows_affected ?? 0;
    return h('div', { class: 'result' }, h('pre', {}, statement), h('p', { class: 'outcome good' }, `Done, ${number(changed)} ${changed === 1 ? 'row' : 'rows'} changed` + (result.last_insert_id ? `, last id ${result.last_insert_id}.` : '.')));
  }
  const rows = result.values ?? [];
  const place = h('div', {});
  const where = h('span', { class: 'muted' });
  const numeric = result.types.map((type) => /int|real|num|float|double|dec/i.test(type ?? ''));
  let from = 0;
  const turn = (by) => {
    from = Math.min(Math.max(from + by, 0), Math.max(rows.length - 1, 0));
    from -= from % page;
    const shown = rows.slice(from, from + page);
    where.textContent = rows.length > page ? `rows ${from + 1} to ${from + shown.length} of ${rows.length.toLocaleString('en-US')}` : `${rows.length} ${rows.length === 1 ? 'row' : 'rows'}`;
    place.replaceChildren(table(result.columns.map((name, i) => [h('span', {}, name, h('small', {}, result.types[i] ?? '')), numeric[i] ? 'number' : null]), shown.map((row) => row.map(show)), 'No rows.'));
    place.querySelector('table')?.classList.remove('cards'); // a result may have any width
  };
  turn(0);
  const button = (name, action) => h('button', { type: 'button', onclick: action }, name);
  return h('div', { class: 'result' }, h('pre', {}, statement), place, h('p', { class: 'buttons' }, where,
    rows.length > page ? [button('Previous', () => turn(-page)), button('Next', () => turn(page))] : null,
    button('CSV', () => download('result.csv', 'text/csv', csv(result))),
    button('JSON', () => download('result.json', 'application/json', json(result)))));
}

export function sql(app) {
  const said = outcome();
  const results = h('div', { class: 'results' });
  const editor = h('textarea', { id: 'sql', rows: 7, spellcheck: 'false', autocapitalize: 'none', 'aria-label': 'SQL', placeholder: 'SELECT * FROM rides;' });
  editor.value = draft ?? history()[0] ?? 'SELECT * FROM rides;';
  const level = h('select', {}, ['weak', 'none', 'linearizable', 'strong', 'auto'].map((name) => h('option', {}, name)));
  const transaction = h('input', { type: 'checkbox' });
  const earlier = h('select', { 'aria-label': 'Earlier statements', onchange: () => { if (earlier.value) editor.value = earlier.value; } });
  const fill = () => earlier.replaceChildren(h('option', { value: '' }, 'earlier statements'), ...history().map((text) => h('option', { value: text }, text.replace(/\s+/g, ' ').slice(0, 60))));

  // run sends the selected text, or else all of it.
  async function run(path, before = '') {
    const text = editor.value.slice(editor.selectionStart, editor.selectionEnd).trim() || editor.value.trim();
    const statements = split(text);
    if (statements.length === 0) throw new Error('There is no statement.');
    remember(editor.value.trim());
    fill();
    const began = performance.now();
    const { data, seq, cache } = await call('POST', path, statements.map((one) => before + one));
    const took = performance.now() - began;
    results.replaceChildren(...data.results.map((result, i) => resultOf(before + statements[i], result)));
    if (path.startsWith('/db/execute')) browse();
    const failed = data.results.filter((result) => result.error).length;
    const summary = `${statements.length === 1 ? '1 statement' : statements.length + ' statements'}, ${milliseconds(took)}, position ${seq ?? '–'}` + (cache ? `, cache ${cache}` : '');
    if (failed > 0) throw new Error(`${failed} of ${statements.length} failed; ${summary}`);
    return summary;
  }
  const reads = () => run('/db/query?timings&level=' + level.value);
  const buttons = {
    read: h('button', { type: 'button', class: 'act primary', onclick: () => said.run(buttons.read, reads) }, 'Run as read'),
    write: app.may('write') ? h('button', { type: 'button', class: 'act', onclick: () => said.run(buttons.write, () => run('/db/execute?timings' + (transaction.checked ? '&transaction' : ''))) }, 'Run as write') : null,
    plan: h('button', { type: 'button', class: 'act', onclick: () => said.run(buttons.plan, () => run('/db/query?level=' + level.value, 'EXPLAIN QUERY PLAN ')) }, 'Explain'),
  };
  editor.addEventListener('keydown', (event) => {
    if (event.key === 'Enter' && (event.ctrlKey || event.metaKey) && !buttons.read.disabled) buttons.read.click();
  });

  const schema = h('div', { class: 'schema' });
  async function browse() {
    try { // without the columns of views, since a view of a table that is gone would fail the whole query
      const { values } = await query("SELECT m.type, m.name, m.tbl_name, m.sql, group_concat(p.name || ' ' || p.type, char(10)) FROM sqlite_schema m LEFT JOIN pragma_table_info(CASE m.type WHEN 'table' THEN m.name END) p WHERE m.name NOT LIKE 'sqlite\\_%' ESCAPE '\\' AND m.name NOT LIKE 'rs\\_%' ESCAPE '\\' GROUP BY m.name, m.type ORDER BY m.type DESC, m.name");
      schema.replaceChildren(...(values ?? []).map(([type, name, of, text, columns]) => h('details', {},
        h('summary', {}, h('b', {}, name), ' ', h('small', {}, type === 'table' || type === 'view' ? type : `${type} of ${of}`)),
        columns ? h('pre', {}, columns) : null, h('pre', {}, text ?? ''),
        type === 'table' || type === 'view' ? h('button', { type: 'button', onclick: () => { editor.value = `SELECT * FROM "${name.replaceAll('"', '""')}" LIMIT 100;`; buttons.read.click(); } }, 'First 100 rows') : null)));
    } catch (err) {
      schema.replaceChildren(h('p', { class: 'outcome bad' }, err.message));
    }
  }
  fill();
  browse();
  return {
    element: h('div', { class: 'view split' },
      h('div', {}, panel('SQL', editor,
        h('div', { class: 'fields' }, field('Level of reads', level), app.may('write') ? h('label', { class: 'check' }, transaction, h('span', {}, 'Writes as one transaction')) : null, field('History', earlier)),
        h('p', { class: 'buttons' }, buttons.read, buttons.write, buttons.plan, h('small', { class: 'muted' }, 'Ctrl-Enter reads; a selection runs alone.')), said.element), results),
      panel('Schema', schema)),
    close: () => { draft = editor.value; },
  };
}
