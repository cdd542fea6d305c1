import type { Loadable, OutlookRun, Row } from '../documents/rows.ts';
import { runIdIn, same, type Statements, type Upsert, upsert } from './upsert.ts';

type LoadableOutlook = Loadable & { family: 'outlook' };
type Discussion = Loadable & { family: 'outlook_discussion' };

/** The maximum time between the issuance of an outlook's areas and its discussion, in seconds. */
const apartSeconds = 3600;

/**
 * Stores the areas of one hazard. A document always contains all areas of a kind (category, probability or
 * intensity), or none of that kind, so areas that are missing from a correction are deleted.
 */
export async function loadOutlook(statements: Statements, { run, areas }: LoadableOutlook): Promise<number> {
  const { forecaster, received_at } = run;
  const run_id = await runOf(statements, 'outlook_runs', { ...run }, ['day', 'issued_at', 'valid_from']);
  const names = (area: LoadableOutlook['areas'][number]): string => `${area.label} ${area.part}`;
  const kinds = new Map(areas.map(({ hazard, kind }) => [`${hazard} ${kind}`, { hazard, kind }]));
  let changed = 0;
  for (const { hazard, kind } of kinds.values()) {
    const named = areas.filter((area) => area.hazard === hazard && area.kind === kind).map(names);
    const removed = await statements.query(
      `delete from outlooks where run_id = $1 and hazard = $2 and kind = $3
       and not (label || ' ' || part) in (select jsonb_array_elements_text($4::text::jsonb)) returning 1 as one`,
      [run_id, hazard, kind, JSON.stringify(named)],
    );
    changed += removed.length;
  }
  // Without areas there is no intensity either, but it is in a separate file that may have been loaded
  // earlier.
  for (const { hazard } of areas.filter(({ label }) => label === 'NONE')) {
    const removed = await statements.query(
      "delete from outlooks where run_id = $1 and hazard = $2 and kind = 'intensity' returning 1 as one",
      [run_id, hazard],
    );
    changed += removed.length;
  }
  const to: Upsert = { table: 'outlooks', key: ['run_id', 'hazard', 'label', 'part'], onConflict: 'replace' };
  changed += await upsert(statements, to, withRun(run_id, areas));
  if (areas.length > 0) changed += await takeDiscussions(statements, run_id, run);
  // The forecaster is only mentioned in some of the documents.
  await statements.query(
    `update outlook_runs as present set forecaster = coalesce(forecaster, $1),
       received_at = case when $2 then greatest(present.received_at, $3::timestamptz) else present.received_at end
     where run_id = $4`,
    [forecaster, changed > 0, received_at, run_id],
  );
  return changed;
}

/**
 * Moves discussions to the run with the areas. If a discussion arrived first, a run was created for it, which
 * would now look like an outlook without areas.
 */
async function takeDiscussions(
  statements: Statements,
  run_id: string,
  { day, valid_from, valid_until, issued_at }: OutlookRun,
): Promise<number> {
  const strays = await statements.query(
    `select run_id from outlook_runs stray where day = $1 and valid_from = $2 and valid_until = $3
       and abs(extract(epoch from issued_at - $4::timestamptz)) <= ${apartSeconds} and run_id <> $5
       and exists (select from outlook_discussions where run_id = stray.run_id)
       and not exists (select from outlooks where run_id = stray.run_id)`,
    [day, valid_from, valid_until, issued_at, run_id],
  );
  for (const stray of strays) {
    const ids = [run_id, stray['run_id']];
    await statements.query(
      `update outlook_discussions moved set run_id = $1 where run_id = $2 and not exists
         (select from outlook_discussions present where present.run_id = $1 and present.product_id = moved.product_id)`,
      ids,
    );
    await statements.query('delete from outlook_runs where run_id = $1', [stray['run_id']]);
  }
  return strays.length;
}

export async function loadOutlookDiscussion(
  statements: Statements,
  { run, discussion }: Discussion,
): Promise<number> {
  const run_id = await runOfWindow(statements, run);
  const to: Upsert = { table: 'outlook_discussions', key: ['run_id', 'product_id'], onConflict: 'keep' };
  return upsert(statements, to, withRun(run_id, [discussion]));
}

/**
 * Finds the run that a discussion belongs to by its valid time, because areas and discussion are often issued
 * a minute apart.
 */
async function runOfWindow(statements: Statements, run: OutlookRun): Promise<string> {
  const { day, valid_from, valid_until } = run;
  const window = { day, valid_from, valid_until };
  const [found] = await statements.query(
    `select run_id from outlook_runs where ${same(Object.keys(window))} order by issued_at desc, run_id desc limit 1`,
    Object.values(window),
  );
  return found === undefined
    ? runOf(statements, 'outlook_runs', { ...run }, ['day', 'issued_at', 'valid_from'])
    : runIdIn(found);
}

/** Returns the id of the run with this key, creating it if necessary. */
export async function runOf(
  statements: Statements,
  table: string,
  row: Row,
  key: readonly string[],
): Promise<string> {
  await upsert(statements, { table, key, onConflict: 'keep' }, [row]);
  return idOf(statements, table, Object.fromEntries(key.map((column) => [column, row[column] ?? null])));
}

/**
 * Returns the id of the run with exactly these values, creating it if necessary. For tables of runs that have
 * no unique key.
 */
export async function runWith(
  statements: Statements,
  table: string,
  row: Row,
): Promise<{ run_id: string; isNew: boolean }> {
  const columns = Object.keys(row);
  const [found] = await statements.query(
    `select run_id from ${table} where ${same(columns)} order by run_id limit 1`,
    Object.values(row),
  );
  if (found !== undefined) return { run_id: runIdIn(found), isNew: false };
  const [made] = await statements.query(
    `insert into ${table} (${columns.join(', ')}) values (${columns.map((_, index) => `$${index + 1}`).join(', ')}) returning run_id`,
    Object.values(row),
  );
  return { run_id: runIdIn(made), isNew: true };
}

async function idOf(statements: Statements, table: string, key: Row): Promise<string> {
  const [row] = await statements.query(
    `select run_id from ${table} where ${same(Object.keys(key))}`,
    Object.values(key),
  );
  return runIdIn(row);
}

export function withRun(run_id: string, rows: readonly Row[]): Row[] {
  return rows.map((row) => ({ run_id, ...row }));
}
