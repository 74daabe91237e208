#pragma once

struct Pair {
  float x, y;
};
