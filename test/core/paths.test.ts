import t from 'tap';
import { ancestorsOf, findCollisions, type RelativePath } from '../../src/core/paths.ts';

t.test('the ancestors of a path come outermost first, without the root and the path itself', async (t) => {
  t.same([...ancestorsOf('a/b/c.txt')], ['a', 'a/b']);
  t.same([...ancestorsOf('a/b')], ['a']);
  t.same([...ancestorsOf('a')], []);
  t.same([...ancestorsOf('')], []);
});

t.test('a walk up a path may stop at any ancestor', async (t) => {
  for (const ancestor of ancestorsOf('a/b/c/d')) {
    t.equal(ancestor, 'a');
    break;
  }
});

t.test('each path that collides with another has one reason', async (t) => {
  const paths = ['a', 'A', 'a', 'b/c', 'b', 'b/c/d/e', 'B/c'] as RelativePath[];
  t.same(findCollisions(paths), [
    { index: 1, reason: 'differs from "a" only in letter case' },
    { index: 2, reason: 'is listed twice' },
    { index: 6, reason: 'differs from "b/c" only in letter case' },
    { index: 3, reason: 'lies below "b", which is listed as a file' },
    { index: 5, reason: 'lies below "b", which is listed as a file' },
    { index: 6, reason: 'lies below "b", which is listed as a file' },
  ]);
});
