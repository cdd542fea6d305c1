import type { PlannedOutput } from '../plan.ts';

const pageTypes = new Set([
  'text/html',
  'application/xhtml+xml',
  'application/rss+xml',
  'application/atom+xml',
  'application/feed+json',
]);
/** Generated outputs that list the others. */
const listings = new Set(['index', 'checksums']);
/** Feeds and site maps, which are often served as plain XML or JSON. */
const feedName = /(?:^|\/)(?:feed|rss|atom|index|sitemap)[^/]*\.(?:xml|json)$/i;

/**
 * Groups the outputs in the order in which they become visible: first assets (style sheets, images, data),
 * then the pages, feeds and listings that refer to them. In between, readers get the old page or a complete
 * new one. Each output is in one group, and no group is empty. Pure.
 */
export function inVisibleOrder<T extends Pick<PlannedOutput, 'path' | 'generated'>>(
  outputs: readonly T[],
): T[][] {
  const groups: [T[], T[]] = [[], []];
  for (const output of outputs) groups[leadsReaders(output) ? 1 : 0].push(output);
  return groups.filter((group) => group.length > 0);
}

function leadsReaders({ path, generated }: Pick<PlannedOutput, 'path' | 'generated'>): boolean {
  const [type = ''] = (generated.contentType ?? '').split(';');
  return (
    pageTypes.has(type.trim().toLowerCase()) ||
    listings.has(generated.generator?.name ?? '') ||
    feedName.test(path)
  );
}
