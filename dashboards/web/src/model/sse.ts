/** Server-sent events (WHATWG HTML, section 9.2), from pieces of text as they arrive. */

export interface Message {
  event: string;
  data: string;
}

export class Parser {
  #rest = '';
  #event = '';
  #data: string[] = [];

  /** The messages that are complete with this piece. */
  take(piece: string): Message[] {
    const messages: Message[] = [];
    const text = this.#rest + piece;
    // A carriage return at the end may be the first half of a line break.
    const end = text.endsWith('\r') ? text.length - 1 : text.length;
    const lines = text.slice(0, end).split(/\r\n|\n|\r/);
    this.#rest = (lines.pop() ?? '') + text.slice(end);
    for (const line of lines) {
      if (line !== '') {
        this.#field(line);
        continue;
      }
      if (this.#data.length > 0) {
        messages.push({ event: this.#event || 'message', data: this.#data.join('\n') });
      }
      this.#event = '';
      this.#data = [];
    }
    return messages;
  }

  #field(line: string): void {
    const [, name, value = ''] = /^([^:]*)(?:: ?(.*))?$/s.exec(line) ?? [];
    if (name === 'event') this.#event = value;
    else if (name === 'data') this.#data.push(value);
  }
}
