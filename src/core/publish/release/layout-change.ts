import { describeBundlePath, pathWithin } from '../../bundle-path.ts';
import { finding, type Finding } from '../../finding.ts';
import type { Layout } from '../../releases/release.ts';
import type { Reason } from '../plan.ts';
import type { ActionResult } from '../results/result.ts';

/*
 * How a change of layout is told. Pure.
 */

export function layoutReason(from: Layout): Reason {
  const to = from === 'in_place' ? 'releases' : 'in_place';
  const message = `it was published with \`layout: ${from}\`, and is with \`layout: ${to}\` from now on`;
  return { code: 'layout_changed', message };
}

/** The same outputs in another layout are a change, though every byte is as it was. */
export function asLayoutChange(result: ActionResult, from: Layout): ActionResult {
  if (result.action !== 'skip_same') return result;
  return { ...result, action: 'replace_catalog', reason: layoutReason(from) };
}

/** What the operator has to do about it. */
export function layoutWarning(from: Layout, destinationPath: string, dryRun: boolean): Finding {
  const serve =
    from === 'in_place'
      ? `have it served from "${pathWithin(destinationPath, 'current')}"`
      : `have it served from ${describeBundlePath(destinationPath)} itself`;
  const left = from === 'in_place' ? 'the files that were published in place' : 'its releases';
  const message = `target=${destinationPath}: the layout ${dryRun ? 'would change' : 'has changed'}: ${serve}, then take down ${left} with \`waybill unpublish --layout ${from} ${destinationPath}\``;
  return finding('warning', 'layout_changed', message);
}
