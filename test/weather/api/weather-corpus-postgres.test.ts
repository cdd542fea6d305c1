import t from 'tap';
import { corpusSuite } from './weather-corpus/suite.ts';
import { onPostgres } from './weather-worlds.ts';

await onPostgres(t, corpusSuite);
