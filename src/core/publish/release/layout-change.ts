import { describeBundlePath, pathWithin } from '../../lib/paths.ts';
import { finding, type Finding } from '../../lib/errors.ts';
import type { Layout } from '../../releases/release.ts';
import type { Reason } from '../plan.ts';
import type { ActionResult } from '../results/result.ts';

/*
 * Reports a change of layout: its reason, result and warning. Pure.
 */

export function layoutReason(from: Layout): Reason {
  const to = from === 'in_place' ? 'releases' : 'in_place';
  const message = `the layout changed from \`layout: ${from}\` to \`layout: ${to}\``;
  return { code: 'layout_changed', message };
}

/** Reports unchanged outputs in a new layout as a change. */
export function asLayoutChange(result: ActionResult, from: Layout): ActionResult {
  if (result.action !== 'skip_same') return result;
  return { ...result, action: 'replace_catalog', reason: layoutReason(from) };
}

/** The warning that asks the operator to serve the new location and unpublish the old one. */
export function layoutWarning(from: Layout, destinationPath: string, dryRun: boolean): Finding {
  const serve =
    from === 'in_place'
      ? `have it served from "${pathWithin(destinationPath, 'current')}"`
      : `have it served from ${describeBundlePath(destinationPath)} itself`;
  const left = from === 'in_place' ? 'the files that were published in place' : 'its releases';
  const message = `target=${destinationPath}: the layout ${dryRun ? 'would change' : 'has changed'}: ${serve}, then remove ${left} with \`waybill unpublish --layout ${from} ${destinationPath}\``;
  return finding('warning', 'layout_changed', message);
}
