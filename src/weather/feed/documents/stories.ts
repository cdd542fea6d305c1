import { BrokenDocument, NothingToLoad, readEach } from './faults.ts';
import {
  instantOf,
  isMap,
  itemsOf,
  mapsOf,
  orNoted,
  required,
  textOf,
  type Json,
  type Loadable,
  type Note,
  type Row,
} from './rows.ts';
import { parseXml } from './xml.ts';

/** An unknown start or end: readers show it as unknown. */
const unknownTime = 'infinity';

/** The stories of an office; an office without any is named by the file, `BGM_….json`. */
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
    // The body has no time of its own; without a story there is none but that of the epoch of the feed.
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

/** The address of a picture; a relative one is of weather.gov. */
function imageOf(value: unknown): string | null {
  const text = textOf(value);
  const url = text === null || !URL.canParse(text, site) ? null : new URL(text, site);
  return url === null || !/^https?:$/.test(url.protocol) ? null : url.href;
}
const site = 'https://www.weather.gov/';

/**
 * The older XML of offices: seconds since 1970, and a first line that is no XML declaration although it looks
 * like one.
 */
export function graphicastsOf(text: string, leftOut: string[]): Loadable {
  const parsed = parseXml(text.replace(/^<xml [^>]*>/, '').replace(/<\/xml>\s*$/, ''), ['graphicast']);
  const lists =
    isMap(parsed) && isMap(parsed['graphicasts']) ? mapsOf(parsed['graphicasts']['graphicast']) : [];
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
  if (Number.isNaN(date.getTime())) throw new BrokenDocument(`${what} is no number of seconds`);
  return date.toISOString();
}
