import { createHash } from 'node:crypto';
import { isRecord } from '../../../core/lib/json-document.ts';
import { hazardsOf } from '../../records/outlook-states.ts';
import { parseXml } from './cap.ts';
import { noAreas } from './outlooks.ts';
import {
  BrokenDocument,
  instantOf,
  itemsOf,
  type Json,
  type Loadable,
  mapsOf,
  type Note,
  NothingToLoad,
  orNoted,
  type OutlookRun,
  readEach,
  required,
  type Row,
  textOf,
} from './rows.ts';

interface Product {
  id: string;
  text: string;
  issuedAt: Date;
  header: string;
  office: string;
  awipsId: string;
  correction: string | null;
}

/**
 * Reads a text product: an area forecast discussion (AFD), a convective outlook discussion (SWO), or the
 * points of an outlook (PTS) if it has no areas.
 */
export function textProductsOf(product: Json | null, raw: string): Loadable[] {
  const text = (product === null ? raw : (textOf(product['productText']) ?? '')).replaceAll('\r', '');
  const [, header, correction, awipsId] =
    /^(\w{6} \w{4} \d{6}(?: (\w{3}))?)\s*\n(\w{6})\s*$/m.exec(text) ?? [];
  if (header === undefined || awipsId === undefined) throw new NothingToLoad('it has no WMO header');
  if (!/^(AFD|SWO|PTS)/.test(awipsId)) throw new NothingToLoad(`${awipsId} is not a family of the reader`);
  const found: Product = {
    id: textOf(product?.['id']) ?? createHash('sha256').update(text).digest('hex').slice(0, 32),
    text,
    issuedAt:
      product === null
        ? issuedIn(text, header)
        : new Date(instantOf(product['issuanceTime'], 'issuanceTime')),
    header,
    // The office's code in the header would not work, because it is not always K and the office: San Juan is
    // TJSJ, and Pago Pago is NSTU.
    office: awipsId.slice(3),
    awipsId,
    correction: correction ?? null,
  };
  if (awipsId.startsWith('AFD')) return [discussionOf(found)];
  if (awipsId.startsWith('SWO')) return outlookDiscussionsOf(found);
  return emptyOutlooksOf(found);
}

function discussionOf({ id, text, issuedAt, header, office, awipsId, correction }: Product): Loadable {
  // A heading can continue on the next line if it is long.
  const parts = text.split(/^\.(?=[A-Z](?:[^\n]|\n(?![\n.])){0,120}?\.\.\.)/m).slice(1);
  const sections = parts.map((part, index) => {
    const [, heading = '', qualifier, rest = ''] =
      /^([^/]*?)\s*(?:\/([^/]*)\/)?\s*\.\.\.([\s\S]*)$/.exec(part) ?? [];
    const onOneLine = (words: string): string => words.trim().replaceAll(/\s+/g, ' ');
    const body = rest.split(/^(?:&&|\$\$)\s*$/m)[0]?.trim() ?? '';
    return {
      product_id: id,
      position: index + 1,
      heading: onOneLine(heading),
      qualifier: qualifier === undefined ? null : onOneLine(qualifier),
      body,
    };
  });
  const issued_at = issuedAt.toISOString();
  return {
    family: 'forecast_discussion',
    discussion: {
      product_id: id,
      office,
      issued_at,
      wmo_header: header,
      awips_id: awipsId,
      correction,
      raw_text: text,
      received_at: issued_at,
    },
    sections,
  };
}

function outlookDiscussionsOf({ id, text, issuedAt, awipsId }: Product): Loadable[] {
  const headline = /^Valid [^\n]*\n+([\s\S]*?)(?=\n\s*\n)/m.exec(text)?.[1];
  const summary = /^\.\.\.SUMMARY\.\.\.\s*\n([\s\S]*?)\n\s*\n/im.exec(text)?.[1];
  return runsOf(text, issuedAt, awipsId).map((run) => ({
    family: 'outlook_discussion',
    run,
    discussion: {
      product_id: id,
      issued_at: issuedAt.toISOString(),
      correction: /Outlook\s+(CORR \d+)/.exec(text)?.[1] ?? null,
      headline:
        headline === undefined
          ? null
          : headline.replaceAll(/\.\.\.$|^\.\.\./g, '').replaceAll(/\s*\n\s*/g, ' '),
      summary: summary?.replaceAll(/\s*\n\s*/g, ' ').trim() ?? null,
      raw_text: text,
    },
  }));
}

/**
 * Reads a points product only if it has no areas. Areas are given as lines that would have to be closed along
 * the coast. SPC has already done that in its GeoJSON.
 */
function emptyOutlooksOf({ text, issuedAt, awipsId }: Product): Loadable[] {
  if (/^[A-Z0-9.]{4}\s+\d{8}/m.test(text)) throw new NothingToLoad('points of areas are loaded from GeoJSON');
  return runsOf(text, issuedAt, awipsId).map((run) => ({
    family: 'outlook',
    run,
    areas: hazardsOf(run.day).map((hazard) => noAreas(hazard, 'No areas')),
  }));
}

/**
 * Returns an outlook run for each day of the product. `SWODY1` is about day 1, and `SWOD48` is about days 4
 * to 8.
 */
function runsOf(text: string, issuedAt: Date, awipsId: string): OutlookRun[] {
  const [, from, until] = /^Valid (?:Time )?(\d{6})Z - (\d{6})Z/im.exec(text) ?? [];
  if (from === undefined || until === undefined)
    throw new BrokenDocument('it has no line "Valid DDHHMMZ - DDHHMMZ"');
  const start = near(issuedAt, from);
  const end = near(issuedAt, until);
  const run = (day: number, valid_from: Date, valid_until: Date): OutlookRun => ({
    day,
    issued_at: issuedAt.toISOString(),
    valid_from: valid_from.toISOString(),
    valid_until: valid_until.toISOString(),
    forecaster: /^\.\.([A-Za-z/]+)\.\./m.exec(text)?.[1] ?? null,
    received_at: issuedAt.toISOString(),
  });
  if (!awipsId.endsWith('48')) return [run(Number(awipsId.at(-1)), start, end)];
  const later = (days: number): Date => new Date(start.getTime() + days * 86_400_000);
  return [4, 5, 6, 7, 8].map((day) => run(day, later(day - 4), later(day - 3)));
}

/**
 * Returns the first time that fits `ddhhmm`, the day of the month and the time of day, starting on the day
 * before `issued`.
 */
function near(issued: Date, ddhhmm: string): Date {
  const [day = 1, hour = 0, minute = 0] = (ddhhmm.match(/\d\d/g) ?? []).map(Number);
  for (let ahead = -1; ahead < 32; ahead++) {
    const date = new Date(
      Date.UTC(issued.getUTCFullYear(), issued.getUTCMonth(), issued.getUTCDate() + ahead, hour, minute),
    );
    if (date.getUTCDate() === day) return date;
  }
  throw new BrokenDocument(`${ddhhmm} is not a day and time`);
}

/**
 * Reads when a product was issued. The header, `FXUS65 KPSR 211216`, has the time in UTC, but the month and
 * year are only in the date line, `515 AM MST Wed Mar 21 2018`. In UTC, it may already be the next day.
 */
function issuedIn(text: string, header: string): Date {
  // Offices with two time zones list both times: `600 PM MST /700 PM CST/ Wed Mar 21 2018`.
  const date = /(?:AM|PM) \w{2,4}(?: \/[^/\n]*\/)? \w{3} (\w{3} \d{1,2} \d{4})/i.exec(text)?.[1];
  const time = /\d{6}/.exec(header.slice(7))?.[0];
  if (date === undefined || time === undefined) throw new NothingToLoad('it has no date line');
  return near(new Date(`${date} UTC`), time);
}

/** Stands for a start or end that is not known. Readers show it as unknown. */
const unknownTime = 'infinity';

/**
 * Reads the stories of an office. If there are no stories, the office is taken from the file name:
 * `BGM_….json`.
 */
export function storiesOf(document: Json, fileName: string, leftOut: string[]): Loadable {
  const listed = itemsOf(document['stories']);
  const office =
    listed.map((story) => textOf(story['officeId'])).find((name) => name !== null) ??
    /^([A-Z]{3})_/.exec(fileName)?.[1];
  if (office === undefined) throw new NothingToLoad('nothing says which office has no stories');
  const stories = readEach(listed, 'stories', leftOut, storyOf);
  const newest = stories
    .map((story) => textOf(story['updated_at']) ?? '')
    .sort()
    .at(-1);
  return {
    family: 'stories',
    office,
    // The document does not say when it was created. If there are no stories either, use the oldest possible
    // time.
    fetchedAt: newest === undefined || newest === '' ? '1970-01-01T00:00:00.000Z' : newest,
    stories: stories.map((story, index) => ({ position: index + 1, ...story })),
  };
}

function storyOf(story: Json, note: Note): Row {
  const time = (name: string): string | null => orNoted(note, () => instantOf(story[name], name, note));
  return {
    title: required(story['title'], 'the title'),
    description: textOf(story['description']) ?? '',
    alt_text: textOf(story['altText']),
    image_url: imageOf(story['download']),
    priority: story['priority'] === true,
    starts_at: time('startTime') ?? unknownTime,
    ends_at: time('endTime') ?? unknownTime,
    updated_at: textOf(story['updateTime']) === null ? null : time('updateTime'),
  };
}

/** Returns the URL of an image. If it is relative, it is resolved against weather.gov. */
function imageOf(value: unknown): string | null {
  const text = textOf(value);
  const url = text === null || !URL.canParse(text, site) ? null : new URL(text, site);
  return url === null || !/^https?:$/.test(url.protocol) ? null : url.href;
}
const site = 'https://www.weather.gov/';

/**
 * Reads the older XML format. Its times are seconds since 1970, and its first line looks like an XML
 * declaration but is not a valid one.
 */
export function graphicastsOf(text: string, leftOut: string[]): Loadable {
  const parsed = parseXml(text.replace(/^<xml [^>]*>/, '').replace(/<\/xml>\s*$/, ''), ['graphicast']);
  const lists =
    isRecord(parsed) && isRecord(parsed['graphicasts']) ? mapsOf(parsed['graphicasts']['graphicast']) : [];
  const office = lists.map((item) => textOf(item['Office'])).find((name) => /^[A-Z]{3}$/.test(name ?? ''));
  const created = /<creation-date>([^<]+)</.exec(text)?.[1];
  return {
    family: 'stories',
    office: required(office, 'the office'),
    fetchedAt: instantOf(created, 'creation-date'),
    stories: readEach(lists, 'graphicasts', leftOut, graphicastOf).map((story, index) => ({
      position: index + 1,
      ...story,
    })),
  };
}

function graphicastOf(item: Json, note: Note): Row {
  const time = (name: string): string => orNoted(note, () => secondsOf(item[name], name)) ?? unknownTime;
  return {
    title: required(item['title'], 'the title').trim(),
    description: textOf(item['description'])?.trim() ?? '',
    alt_text: null,
    image_url: imageOf(item['FullImage']),
    priority: false,
    starts_at: time('StartTime'),
    ends_at: time('EndTime'),
    updated_at: null,
  };
}

function secondsOf(value: unknown, what: string): string {
  const date = new Date(Number(required(value, what)) * 1000);
  if (Number.isNaN(date.getTime())) throw new BrokenDocument(`${what} is not a number of seconds`);
  return date.toISOString();
}
