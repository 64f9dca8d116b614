// Elements, formats, and the dialog.

// h makes an element: h('td', {class: 'number', onclick: f}, 'text', child). Null children and properties are left out.
export function h(tag, properties = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith('on')) element.addEventListener(name.slice(2), value);
    else if (name === 'value') element.value = value;
    else element.setAttribute(name, value === true ? '' : value);
  }
  element.append(...children.flat().filter((child) => child !== null && child !== undefined));
  return element;
}

// setText changes the document only when the text has changed, so that selections live on.
export function setText(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

export const number = (n) => n === undefined || n === null ? '–' : Number(n).toLocaleString('en-US', { maximumFractionDigits: n < 10 ? 1 : 0 });
export const percent = (share) => share === undefined ? '–' : Math.round(100 * share) + ' %';
export const milliseconds = (ms) => !ms ? '–' : ms < 10 ? ms.toFixed(ms < 1 ? 2 : 1) + ' ms' : ms < 1000 ? Math.round(ms) + ' ms' : (ms / 1000).toFixed(1) + ' s';
export const clock = (time) => new Date(time).toLocaleTimeString('en-GB');

export function bytes(n) {
  if (!n) return '–';
  const units = ['B', 'KiB', 'MiB', 'GiB', 'TiB'];
  const unit = Math.min(Math.floor(Math.log2(n) / 10), units.length - 1);
  return (n / 1024 ** unit).toFixed(unit > 1 && n / 1024 ** unit < 10 ? 1 : 0) + ' ' + units[unit];
}

// age tells how long ago a time was.
export function age(time) {
  if (!time) return '–';
  const seconds = Math.max(0, Math.round((Date.now() - new Date(time)) / 1000));
  if (seconds < 60) return seconds + ' s';
  if (seconds < 3600) return Math.floor(seconds / 60) + ' min';
  if (seconds < 86400) return Math.floor(seconds / 3600) + ' h ' + Math.floor(seconds % 3600 / 60) + ' min';
  return Math.floor(seconds / 86400) + ' d ' + Math.floor(seconds % 86400 / 3600) + ' h';
}

// panel is a section with a heading; it has no outside margin, since its parent is a grid.
export function panel(title, ...children) {
  return h('section', { class: 'panel', 'aria-label': title }, h('h2', {}, title), children);
}

// table returns a scrollable table. Each column is [title, class]: number, or long for texts; each row is an array of texts or elements.
export function table(columns, rows, empty = 'None.') {
  if (rows.length === 0) return h('p', { class: 'muted' }, empty);
  const cell = (value, i) => h('td', { class: columns[i][1], 'data-label': columns[i][0] }, value ?? '–');
  return h('div', { class: 'scroll' }, h('table', { class: 'cards' },
    h('thead', {}, h('tr', {}, columns.map(([title, kind]) => h('th', { class: kind, scope: 'col' }, title)))),
    h('tbody', {}, rows.map((row) => h('tr', {}, row.map(cell))))));
}

export function field(label, control, hint) {
  return h('label', {}, h('span', {}, label, hint ? h('small', {}, hint) : null), control);
}

let pending = null; // ends the open question

// ask shows a question with its consequence, and resolves to whether the user agreed.
export function ask(title, consequence, verb) {
  const dialog = document.getElementById('confirm');
  pending?.(false);
  setText(document.getElementById('confirm-title'), title);
  setText(document.getElementById('confirm-text'), consequence);
  setText(dialog.querySelector('button.primary'), verb);
  dialog.returnValue = '';
  dialog.showModal();
  return new Promise((resolve) => {
    const closed = () => { if (!dialog.open) answer(dialog.returnValue === 'yes'); }; // the event of an earlier question may come late
    const answer = (yes) => {
      dialog.removeEventListener('close', closed);
      pending = null;
      resolve(yes);
    };
    pending = answer;
    dialog.addEventListener('close', closed);
  });
}

// outcome is a line that tells the result of the last action.
export function outcome() {
  const line = h('p', { class: 'outcome', role: 'status' });
  return {
    element: line,
    good(text) { line.className = 'outcome good'; line.textContent = text; },
    bad(err) { line.className = 'outcome bad'; line.textContent = err.message; },
    clear() { line.className = 'outcome'; line.textContent = ''; },
    // run does an action whose result is a text, with the button disabled meanwhile. On a dead page it stays disabled.
    async run(button, action) {
      button.disabled = true;
      button.dataset.busy = '';
      this.clear();
      try {
        const done = await action();
        if (done) this.good(done);
      } catch (err) {
        this.bad(err);
      } finally {
        delete button.dataset.busy;
        button.disabled = document.body.classList.contains('dead');
      }
    },
  };
}

// loaded repeats the first load of a view, once a second until it succeeds or the view is gone. said tells the error
// meanwhile.
export async function loaded(said, load) {
  for (let failed = false; ; failed = true) {
    try {
      await load();
      if (failed) said.clear();
      return;
    } catch (err) {
      said.bad(err);
    }
    await new Promise((resolve) => setTimeout(resolve, 1000));
    if (!said.element.isConnected) throw new Error('The view is gone.');
  }
}

export function download(name, type, content) {
  const url = URL.createObjectURL(new Blob([content], { type }));
  h('a', { href: url, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(url), 1000);
}
