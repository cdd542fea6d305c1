import t from 'tap';
import { corpusSuite } from './weather-corpus/suite.ts';
import { onPglite } from './weather-worlds.ts';

await onPglite(t, corpusSuite);
