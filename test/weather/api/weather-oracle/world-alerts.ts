import { outline } from '../../oracle-world.ts';
import type { Maker, Rows } from './world.ts';

export const events = ['Flood Warning', 'Wind Advisory', 'Winter Storm Watch', 'Tornado Warning'];

export function alertRows(make: Maker): Rows {
  const alerts = Array.from({ length: 150 }, (_, n) => alertRow(make, n));
  const ids = alerts.map(({ alert_id }) => alert_id);
  const runs = Array.from({ length: 12 }, (_, n) => ({
    run_id: 1000 + n,
    fetched_at: make.moment(-120, 50),
    source_updated_at: make.some(make.moment(-180, 50)),
  }));
  return {
    alerts,
    alert_runs: runs,
    alert_run_members: runs.flatMap(({ run_id }) =>
      ids.filter(() => make.random() < 0.7).map((alert_id) => ({ run_id, alert_id })),
    ),
    alert_areas: ids.flatMap((alert_id) =>
      // The last ten have no known outlines.
      several(make, 3, () => `ZZ${make.oneOf(['Z', 'C'])}${String(make.whole(0, 49)).padStart(3, '0')}`).map(
        (ugc) => ({
          alert_id,
          ugc,
          same: make.some(make.oneOf(['036061', '036047 036061', '036081 036047  036005'])),
        }),
      ),
    ),
    alert_references: ids.flatMap((alert_id) =>
      several(make, 3, () => `urn:earlier:${make.whole(0, 99)}`).map((ref_id) => ({
        alert_id,
        ref_id,
        ref_sender: make.some('someone'),
        ref_sent_at: make.some(make.moment(-900, 0)),
      })),
    ),
  };
}

function several(make: Maker, most: number, one: () => string): string[] {
  return [...new Set(Array.from({ length: make.whole(0, most) }, one))];
}

function alertRow(make: Maker, n: number) {
  const { oneOf, some, text, moment } = make;
  return {
    alert_id: `urn:alert:${String(n).padStart(4, '0')}`,
    sent_at: moment(-600, 0),
    effective_at: moment(-600, 60),
    onset_at: some(moment(-600, 600)),
    expires_at: moment(-60, 900),
    ends_at: some(moment(-60, 900), 0.4),
    status: oneOf(['Actual', 'Actual', 'Actual', 'Actual', 'Exercise', 'Test']),
    message_type: oneOf(['Alert', 'Alert', 'Update', 'Update', 'Cancel', 'Ack', 'Error']),
    category: oneOf(['Met', 'Geo']),
    severity: oneOf(['Extreme', 'Severe', 'Moderate', 'Minor', 'Unknown']),
    certainty: oneOf(['Observed', 'Likely', 'Possible', 'Unlikely', 'Unknown']),
    urgency: oneOf(['Immediate', 'Expected', 'Future', 'Past', 'Unknown']),
    event: oneOf(events),
    event_code: some('FLW'),
    vtec: several(make, 2, () => `/O.CON.KOKX.FL.W.${make.whole(1, 99)}\\{"},/`),
    office: some(oneOf(['AAA', 'BBB'])),
    sender_name: some(text('sender')),
    headline: some(text('headline')),
    description: some(text('description')),
    instruction: some(text('instruction')),
    response: some('Avoid'),
    area_desc: text('area'),
    language: oneOf(['en-US', 'es-US']),
    parameters: oneOf<object>([
      {},
      { b: ['2', '1'], a: 'one', C: [7, { deep: true }] },
      { VTEC: ['x'], é: null },
    ]),
    geometry: some(outline(make).geometry, 0.4),
  };
}
