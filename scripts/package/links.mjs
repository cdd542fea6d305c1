import path from 'node:path';

/** `[text](target)` or, with an exclamation mark, an image. */
const link = /(!?)\[((?:[^[\]]|\[[^\]]*\])*)\]\(([^()\s]+)\)/g;

/**
 * The Markdown of `file` with links only to what is there: of another link its text stays, and of a picture
 * nothing. `has` are the files there are, relative to the same root as `file`.
 */
export function withoutDeadLinks(file, text, has) {
  return text.replaceAll(link, (whole, picture, label, target) => {
    if (leads(file, target, has)) return whole;
    return picture === '!' ? '' : label;
  });
}

/** Whether a link in `file` leads to another site, within the file, or to a file or directory there is. */
function leads(file, target, has) {
  if (/^(?:[a-z]+:|#)/.test(target)) return true;
  const [name = ''] = target.split('#');
  const found = path.posix.join(path.posix.dirname(file), name).replace(/\/$/, '');
  return has.has(found) || [...has].some((one) => one.startsWith(`${found}/`));
}
