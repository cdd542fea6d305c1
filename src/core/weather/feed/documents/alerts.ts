import { BrokenDocument, readEach } from './faults.ts';
import {
  instantOf,
  isMap,
  mapsOf,
  oneOf,
  optionalInstant,
  quoted,
  required,
  textOf,
  textsOf,
  type Alert,
  type Json,
  type Loadable,
} from './rows.ts';
import { sameByUgc } from './same-codes.ts';
import { parseXml } from './xml.ts';

const statuses = ['Actual', 'Exercise', 'System', 'Test', 'Draft'];
const messageTypes = ['Alert', 'Update', 'Cancel', 'Ack', 'Error'];
const severities = ['Extreme', 'Severe', 'Moderate', 'Minor', 'Unknown'];
const certainties = ['Observed', 'Likely', 'Possible', 'Unlikely', 'Unknown'];
const urgencies = ['Immediate', 'Expected', 'Future', 'Past', 'Unknown'];

/**
 * A list of alerts as api.weather.gov gives it: one poll. A broken alert is named in `leftOut`. Where it is
 * asked for now, a list that goes on elsewhere is broken as a whole: what it does not name would read as not
 * in force.
 */
export function alertsOf(
  collection: Json,
  { leftOut, isPoll }: { leftOut: string[]; isPoll: boolean },
): Loadable {
  if (isPoll && isMap(collection['pagination']) && textOf(collection['pagination']['next']) !== null)
    throw new BrokenDocument('pagination.next says that the list goes on, and a part of it is no poll');
  const all = readEach(mapsOf(collection['features']), 'features', leftOut, alertOf);
  // An Update takes the place of what it refers to; a Cancel may cancel a part, and so removes nothing.
  const replaced = new Set(
    all
      .filter(({ alert }) => alert['message_type'] === 'Update')
      .flatMap(({ references }) => references.map((reference) => reference['ref_id'])),
  );
  const updated = optionalInstant(collection['updated'] ?? collection['@saved'], 'updated');
  const newest = all
    .map(({ alert }) => required(alert['sent_at'], 'sent'))
    .sort()
    .at(-1);
  return {
    family: 'alerts',
    fetchedAt: updated ?? instantOf(newest, 'updated'),
    sourceUpdatedAt: updated,
    alerts: all.map((item) => ({
      ...item,
      listed: item.alert['message_type'] !== 'Cancel' && !replaced.has(item.alert.alert_id),
    })),
  };
}

function alertOf(feature: Json): Alert {
  const p = isMap(feature['properties']) ? feature['properties'] : {};
  const alert_id = required(p['id'], 'properties.id');
  const geocode = isMap(p['geocode']) ? p['geocode'] : {};
  const parameters = isMap(p['parameters']) ? p['parameters'] : {};
  const vtec = textsOf(parameters['VTEC']);
  const eventCode = isMap(p['eventCode']) ? p['eventCode'] : {};
  const awips = textsOf(parameters['AWIPSidentifier'])[0];
  return {
    alert: {
      alert_id,
      sent_at: instantOf(p['sent'], 'sent'),
      effective_at: instantOf(p['effective'], 'effective'),
      onset_at: optionalInstant(p['onset'], 'onset'),
      expires_at: instantOf(p['expires'], 'expires'),
      ends_at: optionalInstant(p['ends'], 'ends'),
      status: oneOf(p['status'], statuses, 'status'),
      message_type: oneOf(p['messageType'], messageTypes, 'messageType'),
      category: required(p['category'], 'category'),
      severity: oneOf(p['severity'], severities, 'severity'),
      certainty: oneOf(p['certainty'], certainties, 'certainty'),
      urgency: oneOf(p['urgency'], urgencies, 'urgency'),
      event: required(p['event'], 'event'),
      event_code: textsOf(eventCode['NationalWeatherService'])[0] ?? null,
      vtec,
      office: awips?.slice(3, 6) ?? officeOf(vtec),
      sender_name: textOf(p['senderName']),
      headline: textOf(p['headline']),
      description: textOf(p['description']),
      instruction: textOf(p['instruction']),
      response: textOf(p['response']),
      area_desc: required(p['areaDesc'], 'areaDesc'),
      language: textOf(p['language']) ?? 'en-US',
      parameters,
      geometry: isMap(feature['geometry']) ? feature['geometry'] : null,
    },
    areas: areasOf(alert_id, textsOf(geocode['UGC']), textsOf(geocode['SAME'])),
    references: mapsOf(p['references']).map((item) => ({
      alert_id,
      ref_id: required(item['identifier'], 'the identifier of a reference'),
      ref_sender: textOf(item['sender']),
      ref_sent_at: optionalInstant(item['sent'], 'the sent of a reference'),
    })),
    listed: true,
  };
}

/** One CAP 1.1 message of the older feeds, as a poll that listed it alone. */
export function capOf(text: string): Loadable {
  const parsed = parseXml(text, ['geocode', 'parameter']);
  const cap = isMap(parsed) && isMap(parsed['alert']) ? parsed['alert'] : {};
  const info = isMap(cap['info']) ? cap['info'] : {};
  const area = isMap(info['area']) ? info['area'] : {};
  const valuesOf = (list: unknown, name: string): string[] =>
    mapsOf(list).flatMap((item) =>
      item['valueName'] === name && textOf(item['value']) !== null ? [String(item['value'])] : [],
    );
  const alert_id = required(cap['identifier'], 'identifier');
  const vtec = valuesOf(info['parameter'], 'VTEC').flatMap((value) =>
    value.split('\n').map((line) => line.trim()),
  );
  const sent_at = instantOf(cap['sent'], 'sent');
  const alert = {
    alert_id,
    sent_at,
    effective_at: instantOf(info['effective'] ?? cap['sent'], 'effective'),
    onset_at: optionalInstant(info['onset'], 'onset'),
    expires_at: instantOf(info['expires'], 'expires'),
    ends_at: null,
    status: oneOf(cap['status'], statuses, 'status'),
    message_type: oneOf(cap['msgType'], messageTypes, 'msgType'),
    category: required(info['category'], 'category'),
    severity: oneOf(info['severity'], severities, 'severity'),
    certainty: oneOf(info['certainty'], certainties, 'certainty'),
    urgency: oneOf(info['urgency'], urgencies, 'urgency'),
    event: required(info['event'], 'event'),
    event_code: isMap(info['eventCode']) ? textOf(info['eventCode']['value']) : null,
    vtec,
    office: officeOf(vtec),
    sender_name: textOf(info['senderName']),
    headline: textOf(info['headline']),
    description: textOf(info['description']),
    instruction: textOf(info['instruction']),
    response: textOf(info['responseType']),
    area_desc: required(area['areaDesc'], 'areaDesc'),
    language: textOf(info['language']) ?? 'en-US',
    parameters: {},
    geometry: null,
  };
  const codes = [...valuesOf(area['geocode'], 'SAME'), ...valuesOf(area['geocode'], 'FIPS6')];
  const areas = areasOf(alert_id, valuesOf(area['geocode'], 'UGC'), codes);
  return {
    family: 'alerts',
    fetchedAt: sent_at,
    sourceUpdatedAt: null,
    alerts: [{ alert, areas, references: [], listed: true }],
  };
}

function areasOf(alert_id: string, ugc: string[], codes: string[]): Alert['areas'] {
  const ugcs = [...new Set(ugc)];
  for (const code of ugcs)
    if (!/^[A-Z]{2}[CZ]\d{3}$/.test(code)) throw new BrokenDocument(`geocode.UGC has ${quoted(code)}`);
  return [...sameByUgc(ugcs, codes)].map(([code, same]) => ({ alert_id, ugc: code, same }));
}

/** `/O.CON.KSTO.WS.W.0005…/` is of the office STO. */
function officeOf(vtec: string[]): string | null {
  return /^\/\w\.\w{3}\.\w(\w{3})\./.exec(vtec[0] ?? '')?.[1] ?? null;
}
