#pragma once

constexpr int MOST = 64;
