/** HTML whose values are escaped, so that what others have chosen is text. */

/** Markup as it is. Only `html` makes it. */
export class Markup {
  constructor(readonly text: string) {}
}

type Value = string | number | Markup | readonly Markup[];

const ESCAPES: Record<string, string> = {
  '&': '&amp;',
  '<': '&lt;',
  '>': '&gt;',
  '"': '&quot;',
  "'": '&#39;',
};

/** What XML, and so SVG, has no way to write is left out. */
const escaped = (text: string): string =>
  text
    .replace(/[&<>"']/g, (one) => ESCAPES[one] ?? '')
    .replace(/[\u0000-\u0008\u000b\u000c\u000e-\u001f\ufffe\uffff]/g, '\ufffd');

/** A template whose values are escaped, but for markup. Attributes are to be quoted. */
export function html(strings: TemplateStringsArray, ...values: Value[]): Markup {
  let text = strings[0] ?? '';
  values.forEach((value, n) => {
    if (value instanceof Markup) text += value.text;
    else if (typeof value === 'string' || typeof value === 'number') text += escaped(String(value));
    else text += value.map((one) => one.text).join('');
    text += strings[n + 1] ?? '';
  });
  return new Markup(text);
}
