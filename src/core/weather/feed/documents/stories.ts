import { BrokenDocument, NothingToLoad } from './faults.ts';
import {
  instantOf,
  isMap,
  mapsOf,
  optionalInstant,
  required,
  textOf,
  type Json,
  type Loadable,
} from './rows.ts';
import { parseXml } from './xml.ts';

/** The stories of an office; an office without any is told by the name of the file, `BGM_….json`. */
export function storiesOf(document: Json, fileName: string): Loadable {
  const stories = mapsOf(document['stories']);
  const office = textOf(stories[0]?.['officeId']) ?? /^([A-Z]{3})_/.exec(fileName)?.[1];
  if (office === undefined) throw new NothingToLoad('nothing says which office has no stories');
  const newest = stories
    .map((story) => textOf(story['updateTime']) ?? '')
    .sort()
    .at(-1);
  return {
    family: 'stories',
    office,
    // The body has no time of its own; without a story there is none but that of the epoch of the feed.
    fetchedAt: newest === undefined ? '1970-01-01T00:00:00.000Z' : instantOf(newest, 'updateTime'),
    stories: stories.map((story, index) => ({
      position: index + 1,
      title: required(story['title'], 'the title'),
      description: textOf(story['description']) ?? '',
      alt_text: textOf(story['altText']),
      image_url: textOf(story['download']),
      priority: story['priority'] === true,
      starts_at: instantOf(story['startTime'], 'startTime'),
      ends_at: instantOf(story['endTime'], 'endTime'),
      updated_at: optionalInstant(story['updateTime'], 'updateTime'),
    })),
  };
}

/**
 * The older XML of offices: seconds since 1970, and a first line that is no XML declaration although it looks
 * like one.
 */
export function graphicastsOf(text: string): Loadable {
  const parsed = parseXml(text.replace(/^<xml [^>]*>/, '').replace(/<\/xml>\s*$/, ''), ['graphicast']);
  const lists =
    isMap(parsed) && isMap(parsed['graphicasts']) ? mapsOf(parsed['graphicasts']['graphicast']) : [];
  const office = lists.map((item) => textOf(item['Office'])).find((name) => /^[A-Z]{3}$/.test(name ?? ''));
  const created = /<creation-date>([^<]+)</.exec(text)?.[1];
  return {
    family: 'stories',
    office: required(office, 'the office'),
    fetchedAt: instantOf(created, 'creation-date'),
    stories: lists.map((item, index) => ({
      position: index + 1,
      title: required(item['title'], 'the title').trim(),
      description: textOf(item['description'])?.trim() ?? '',
      alt_text: null,
      image_url: textOf(item['FullImage']),
      priority: false,
      starts_at: secondsOf(item['StartTime'], 'StartTime'),
      ends_at: secondsOf(item['EndTime'], 'EndTime'),
      updated_at: null,
    })),
  };
}

function secondsOf(value: unknown, what: string): string {
  const date = new Date(Number(required(value, what)) * 1000);
  if (Number.isNaN(date.getTime())) throw new BrokenDocument(`${what} is no number of seconds`);
  return date.toISOString();
}
