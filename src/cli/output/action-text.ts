import type { Style } from './output.ts';

/*
 * Decisions of a publication as `run`, `publish`, `push` and `runs` print them. Pure.
 */

/** `+` is new, `~` is changed, `=` stays as it is, `✗` failed. */
export function signOf(action: string, error: object | null, style: Style): string {
  if (error !== null) return style.red('✗');
  if (action === 'skip_same') return style.dim('=');
  return action === 'publish_new' ? style.green('+') : style.yellow('~');
}

/** The reasons that the action and its counts already show. */
const usualReasons = ['destination_empty', 'outputs_differ', 'outputs_omitted', 'all_recorded'];

/** Why an action was chosen, if that is not the usual reason and no error follows that repeats it. */
export function reasonText(reason: { code: string; message: string } | null, error: object | null): string {
  return reason === null || error !== null || usualReasons.includes(reason.code) ? '' : reason.message;
}
