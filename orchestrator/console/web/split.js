// split cuts SQL text into statements at its semicolons, not at those in strings, names, comments and triggers.
export function split(text) {
  const token = /'(?:[^']|'')*'?|"(?:[^"]|"")*"?|`(?:[^`]|``)*`?|\[[^\]]*\]?|--[^\n]*|\/\*[\s\S]*?(?:\*\/|$)|[A-Za-z_][\w$]*|;|[\s\S]/g;
  const statements = [];
  let words = [];
  let start = 0;
  let cases = 0; // open CASE ... END in a trigger
  const end = (at) => {
    if (words.length > 0) statements.push(text.slice(start, at).trim());
    words = [];
    start = at + 1;
    cases = 0;
  };
  for (const { 0: part, index } of text.matchAll(token)) {
    if (part === ';') {
      const trigger = /^CREATE( TEMP| TEMPORARY)? TRIGGER\b/.test(words.slice(0, 4).join(' '));
      if (!trigger || (words.at(-1) === 'END' && cases < 0)) end(index);
    } else if (!/^(\s|--|\/\*)/.test(part)) {
      const word = part.toUpperCase();
      words.push(word);
      if (word === 'CASE') cases++;
      if (word === 'END') cases--;
    }
  }
  end(text.length);
  return statements;
}
