import path from 'node:path';

/** One file imports another, both as paths from the root of the project. */
export interface Import {
  from: string;
  to: string;
}

/**
 * The cycles of folders among these imports, one line each, with an import for every arrow. In each folder,
 * its direct entries are the nodes: files, and folders with everything below them. So a folder may import
 * its subfolders, or be imported by them, but two folders next to each other must not import each other.
 */
export function folderCycles(imports: readonly Import[]): string[] {
  const graphs = new Map<string, Map<string, Map<string, Import>>>();
  for (const each of imports) {
    const [folder, from, to] = apart(each);
    if (from === to) continue;
    const graph = entry(graphs, folder, () => new Map<string, Map<string, Import>>());
    const arrows = entry(graph, from, () => new Map<string, Import>());
    if (!arrows.has(to)) arrows.set(to, each);
  }
  return [...graphs.values()]
    .flatMap((graph) => [...graph.keys()].flatMap((node) => cycleThrough(node, graph)))
    .sort();
}

/** The innermost folder with both files, and its entry on either side. */
function apart({ from, to }: Import): [folder: string, from: string, to: string] {
  const [a, b] = [from.split('/'), to.split('/')];
  let depth = 0;
  while (depth < a.length - 1 && depth < b.length - 1 && a[depth] === b[depth]) depth += 1;
  const node = (segments: string[]): string => segments.slice(0, depth + 1).join('/');
  return [a.slice(0, depth).join('/'), node(a), node(b)];
}

/**
 * The shortest cycle through `node`, reported only by its first node in name order, so that each appears
 * once.
 */
function cycleThrough(node: string, graph: ReadonlyMap<string, ReadonlyMap<string, Import>>): string[] {
  const cameFrom = new Map<string, string>();
  const queue = [node];
  for (const current of queue) {
    for (const next of graph.get(current)?.keys() ?? []) {
      if (next === node) return describeCycle(pathTo(current, node, cameFrom), graph);
      if (cameFrom.has(next) || next < node) continue;
      cameFrom.set(next, current);
      queue.push(next);
    }
  }
  return [];
}

function pathTo(last: string, first: string, cameFrom: ReadonlyMap<string, string>): string[] {
  const nodes = [last];
  for (let node = last; node !== first; nodes.unshift(node)) node = cameFrom.get(node) ?? first;
  return nodes;
}

function describeCycle(
  nodes: readonly string[],
  graph: ReadonlyMap<string, ReadonlyMap<string, Import>>,
): string[] {
  const arrows = nodes.map((node, index) => {
    const found = graph.get(node)?.get(nodes[(index + 1) % nodes.length] ?? '');
    return `${path.posix.relative('src', found?.from ?? '')} → ${path.posix.relative('src', found?.to ?? '')}`;
  });
  return [arrows.join(', ')];
}

function entry<K, V>(map: Map<K, V>, key: K, make: () => V): V {
  const found = map.get(key) ?? make();
  map.set(key, found);
  return found;
}
