/** The text of an alert, which comes in lines of 69 characters, as paragraphs for a page. */

export interface Paragraph {
  /** `What` of `* WHAT...Heavy snow.`; null without one. */
  label: string | null;
  text: string;
  /** Whether its lines and gaps have to stay, as those of a table. */
  isTable: boolean;
}

/** The paragraphs of a text: blank lines and list items divide it, single line ends do not. Pure. */
export function paragraphsOf(text: string | null): Paragraph[] {
  return (text ?? '')
    .trim()
    .split(/\n[ \t]*\n\s*|\n(?=\s*(?:[*•]|- )\s*\S)/)
    .filter((part) => part.trim() !== '')
    .map((part) => {
      if (isTable(part)) return { label: null, text: part, isTable: true };
      const joined = part.replaceAll(/\s+/g, ' ').trim();
      const [, name, rest] = /^\* ?([A-Z][A-Z /]{2,40})\.\.\.\s*(.*)$/.exec(joined) ?? [];
      if (name === undefined || rest === undefined) return { label: null, text: joined, isTable: false };
      return { label: `${name.charAt(0)}${name.slice(1).toLowerCase()}`, text: rest, isTable: false };
    });
}

function isTable(part: string): boolean {
  return part.split('\n').filter((line) => /\S(?: {3,}|\t+)\S/.test(line)).length >= 2;
}
