import { describeBundlePath } from '../../bundle-path.ts';
import { readReleases } from '../../releases/store.ts';
import { parseBundlePath } from '../../storage/key.ts';
import type { Storage } from '../../storage/storage.ts';
import { within } from '../../storage/wrappers/within.ts';
import type { ActionResult } from '../results/result.ts';

/**
 * A publication in place that was refused for what is there: with what to do if that are releases, which
 * force would not replace either. `root` is rooted at the destination. Never throws.
 */
export async function refusedInPlace(root: Storage, result: ActionResult): Promise<ActionResult> {
  const { error, destinationPath } = result;
  const found = await readReleases(within(root, parseBundlePath(destinationPath))).catch(() => null);
  if (error === null || (found?.current ?? null) === null) return result;
  const where = describeBundlePath(destinationPath);
  const message = `${where} is published with \`layout: releases\``;
  const hint = 'take it down first (`waybill unpublish`), or publish in place at another path';
  return { ...result, error: { ...error, message, hint } };
}
