/** Files that the page makes itself. */

/** Hand a file to the browser, which asks or puts it where downloads go. */
export function save(name: string, type: string, text: string): void {
  const link = document.createElement('a');
  link.href = URL.createObjectURL(new Blob([text], { type }));
  link.download = name;
  link.click();
  // The browser has read what it needs by the next turn.
  setTimeout(() => URL.revokeObjectURL(link.href), 1000);
}

/** 2026-11-25T042001Z, for names of files. */
export const stamp = (at_s: number): string =>
  `${new Date(at_s * 1000).toISOString().slice(0, 19).replaceAll(':', '')}Z`;
