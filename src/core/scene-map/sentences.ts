/**
 * Counts sentences the way a reader would. `Intl.Segmenter` counts too many: it also splits after
 * abbreviations, initials and list numbers, inside quotations and brackets, and before a lowercase letter
 * ("…!" she said).
 */
export function countSentences(text: string): number {
  if (text.trim() === '') return 0;
  let count = 0;
  for (const paragraph of text.split(/\n\s*\n/))
    count += inParagraph(paragraph.replace(/\s+/g, ' ').replaceAll('…', '...').trim());
  return count;
}

/**
 * Reports whether a text is certain to have no more than `limit` sentences. This is cheap, and means that
 * most texts do not have to be counted.
 */
export function isWithinSentenceLimit(text: string, limit: number): boolean {
  let ends = 0;
  let last = -1;
  for (let index = 0; index < text.length; index++) {
    const code = text.charCodeAt(index);
    if (code === 0x0a || (code > 0x7f && mayEnd(code))) return false;
    if (code === 0x2e || code === 0x21 || code === 0x3f) {
      ends++;
      last = index;
    }
  }
  return last === text.length - 1 ? ends <= limit : ends < limit;
}

/**
 * Reports whether a sentence can end with this character, if it is not ASCII. The most common ones (letters
 * with accents, dashes and curly quotes) are handled first, because that is fast.
 */
function mayEnd(code: number): boolean {
  if (code < 0x0589) return code === 0x85;
  if (code >= 0x2010 && code <= 0x201f) return false;
  return code >= 0x2020 && code <= 0x2029 ? true : nonLatinEnd.test(String.fromCharCode(code));
}

// Surrogates are treated as if they could end a sentence, without looking any closer.
const nonLatinEnd = /[\p{Sentence_Terminal}\p{Cs}]/u;
let segmenter: Intl.Segmenter | undefined;

function inParagraph(text: string): number {
  segmenter ??= new Intl.Segmenter('en', { granularity: 'sentence' });
  let count = 0;
  let current = '';
  const pieces = [...segmenter.segment(text)].map(({ segment }) => segment);
  for (const [index, piece] of pieces.entries()) {
    current += piece;
    const next = pieces[index + 1];
    if (next !== undefined && isContinued(current, next, pieces.slice(index + 1).join(''))) continue;
    if (/[\p{L}\p{N}]/u.test(current)) count++;
    current = '';
  }
  return count;
}

function isContinued(current: string, next: string, rest: string): boolean {
  const done = current.trimEnd();
  if (!/[\p{L}\p{N}]/u.test(next)) return true;
  if (/^[\s"“‘'(\[—–-]*\p{Ll}/u.test(next)) return true;
  if (stillOpen(done, rest)) return true;
  if (/[!?.]["”’»']+$/u.test(done) && spokenBy.test(next)) return true;
  if (done.endsWith('...')) return (done.match(/[\p{L}\p{N}]+/gu)?.length ?? 0) < 3;
  return abbreviation.test(done) || initial.test(done) || /^\(?\d{1,2}\.$/.test(done);
}

/** Reports whether there is a quotation or bracket in `done` that has not been closed. */
function stillOpen(done: string, rest: string): boolean {
  const count = (pattern: RegExp): number => done.match(pattern)?.length ?? 0;
  if (count(/"/g) % 2 === 1 && rest.includes('"')) return true;
  if (count(/“/g) > count(/”/g) && rest.includes('”')) return true;
  if (count(/«/g) > count(/»/g) && rest.includes('»')) return true;
  return count(/\(/g) > count(/\)/g) && rest.includes(')');
}

const abbreviation =
  /(?:^|[\s("“'])(?:mr|mrs|ms|mx|dr|prof|rev|fr|st|ste|sr|jr|lt|capt|cpt|col|gen|sgt|cmdr|adm|gov|sen|rep|hon|vs|v|e\.g|i\.e|cf|ca|approx|no|nos|vol|ch|pg|pp|fig|lvl|est|mt|ft|incl|min|max)\.$/i;
const initial = /(?:^|[\s("“'.])\p{Lu}\.$/u;
const spokenBy =
  /^(?:[\p{Lu}][\p{L}'’-]*\s+|the\s+\p{L}+\s+){1,4}(?:said|says|asked|asks|cried|cries|shouted|shouts|yelled|yells|whispered|whispers|replied|replies|answered|answers|muttered|mutters|called|calls|warned|warns|demanded|demands|growled|growls|told|tells|added|adds|exclaimed|exclaims)\b/iu;
