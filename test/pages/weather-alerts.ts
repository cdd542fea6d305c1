import { text } from './weather-forecasts.ts';
import { outline } from './weather-shapes.ts';

/** Alerts, as a feeder would store them. */

interface Alert {
  event: string;
  severity: string;
  /** If null, the zone determines the place. */
  geometry: string | null;
  zone: string;
  otherZone?: string;
  /** The end, in UTC. Default: `2026-01-21T06:00Z`. */
  ends?: string;
  status?: string;
  area?: string;
  what?: string;
  instruction?: string;
  description?: string;
}

const aleutian = outline('172 51, -176 51, -176 54, 172 54');
const tornado = outline('-89.35 32.1, -89.35 32.95, -88.3 33.05, -88.25 32.3');
const windy = outline('-104.9 39.2, -104.9 41, -104.05 41, -104.05 43, -102.2 43, -102 41, -102.05 39');
const foggy = outline(
  '-119.2 38.4, -118.9 40.6, -117.3 41, -116.6 40.2, -115.2 40.6, -114.9 38.9, -116.1 37.3, -117.4 38',
);

/** @param odd text that is added to the texts of the alerts */
export function alertsWith(odd: string): readonly Alert[] {
  const alerts: readonly Alert[] = [
    {
      ...{ event: 'Winter Storm Warning', severity: 'Severe', geometry: null, zone: 'NYZ072' },
      ...{
        area: 'New York City; Long Island; Catskills',
        what: 'Heavy snow. Four to eight inches are expected',
      },
      instruction: 'Travel only in an emergency. Keep a flashlight, food, and water in your vehicle.',
    },
    {
      ...{ event: 'Tornado Warning', severity: 'Extreme', zone: 'MSZ001', ends: '2026-01-20T19:00Z' },
      ...{ geometry: tornado, area: 'Lauderdale; Kemper; Neshoba' },
      what: 'A confirmed tornado near Meridian, moving east at 35 mph',
      instruction:
        'Take shelter now in a basement or an interior room on the lowest floor of a sturdy building.',
    },
    {
      ...{ event: 'Wind Advisory', severity: 'Moderate', zone: 'COZ048', ends: '2026-01-21T01:00Z' },
      ...{ geometry: windy, area: 'Nebraska Panhandle; Northeast Plains', otherZone: 'NEZ019' },
      what: 'West winds 25 to 35 mph with gusts up to 55 mph',
      instruction: 'Use extra caution when driving. Secure outdoor objects.',
    },
    {
      ...{ event: odd === '' ? 'Dense Fog Advisory' : odd, severity: 'Minor', zone: 'NVZ001' },
      ...{ geometry: foggy, area: 'Central Nevada', ends: '2026-01-20T20:00Z' },
      what: 'Visibility of one quarter mile or less in dense fog',
      instruction: 'Slow down, use your headlights, and keep plenty of distance ahead of you.',
    },
  ];
  return alerts.map((alert) => ({
    ...alert,
    area: joined([alert.area ?? '', odd], '; '),
    description: `* WHAT...${alert.what}.\n\n* WHERE...${joined([alert.area ?? '', odd], ' and ')}.`,
  }));
}

function joined(texts: readonly string[], by: string): string {
  return texts.filter((each) => each !== '').join(by);
}

const senders: Readonly<Record<string, string>> = {
  AK: 'NWS Anchorage AK',
  CO: 'NWS Boulder CO',
  MS: 'NWS Jackson MS',
  NV: 'NWS Elko NV',
  NY: 'NWS Upton NY',
};

/** @param name The name in their identifiers. */
export function alertRows(alerts: readonly Alert[], name = 'urn'): string {
  return alerts
    .map(
      (
        {
          event,
          severity,
          geometry,
          zone,
          otherZone,
          ends = '2026-01-21T06:00Z',
          status = 'Actual',
          area = '',
          description = `* WHAT...${event}.`,
          instruction = 'Stay at home.',
        },
        index,
      ) => `
      insert into alerts (alert_id, sent_at, effective_at, expires_at, ends_at, status, message_type, category, severity,
        certainty, urgency, event, office, sender_name, headline, description, instruction, area_desc, geometry)
      values ('${name}:${index}', '2026-01-20T17:00Z', '2026-01-20T17:00Z', '${ends}', '${ends}', '${status}', 'Alert',
        'Met', '${severity}', 'Likely', 'Expected', ${text(event)}, 'OKX', ${text(senders[zone.slice(0, 2)] ?? 'NWS')},
        ${text(`${event} until 1 AM`)}, ${text(description)}, ${text(instruction)},
        ${text(area)}, ${geometry === null ? 'null' : text(geometry)});
      insert into alert_areas (alert_id, ugc) values ${[zone, ...(otherZone === undefined ? [] : [otherZone])].map((ugc) => `('${name}:${index}', '${ugc}')`).join(', ')};
      insert into alert_run_members select max(run_id), '${name}:${index}' from alert_runs;`,
    )
    .join('\n');
}

export const badAlerts: readonly Alert[] = [
  {
    event: 'Flood Watch',
    severity: 'Severe',
    geometry: null,
    zone: 'MSZ099',
    area: 'Lauderdale; Clarke',
    instruction: 'Monitor later forecasts, and be prepared to move to higher ground.',
    description:
      '* WHAT...Flooding caused by excessive rainfall is possible, with\ntwo to four inches of rain.\n\n* WHERE...Portions of east central Mississippi.\n\n* WHEN...Through late tonight.',
  },
  {
    event: 'Winter Storm Warning',
    severity: 'Severe',
    geometry: aleutian,
    zone: 'AKZ787',
    area: 'Western Aleutians',
    instruction: 'Travel only in an emergency. Expect drifting snow and very low visibility.',
    description:
      '* WHAT...Heavy snow and blowing snow expected, with winds that\ngust as high as 65 mph.\n\n* WHERE...Western Aleutians.\n\n* WHEN...From this afternoon to 9 PM AKST.',
  },
  {
    event: 'Tsunami Warning',
    severity: 'Extreme',
    geometry: aleutian,
    zone: 'AKZ787',
    status: 'Test',
    area: 'Western Aleutians',
  },
];
