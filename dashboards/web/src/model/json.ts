/** JSON whose datapath ids survive: they have 64 bits, and a number of JavaScript has 53. */

const LARGE_SWITCH = /(?<!\\)"switch":\s*(\d{16,})/g;

/** Large datapath ids become text. */
export function parse(text: string): unknown {
  return JSON.parse(text.replace(LARGE_SWITCH, '"switch":"$1"'));
}

/** A datapath id in 16 hexadecimal digits, from the number of an event; empty without one. */
export function datapathId(value: unknown): string {
  if (typeof value !== 'number' && typeof value !== 'string') return '';
  try {
    return BigInt(value).toString(16).padStart(16, '0');
  } catch {
    return '';
  }
}
