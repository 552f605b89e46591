/* SPDX-License-Identifier: Apache-2.0
 *
 * main.c - hands over to lua/moontide/cli/init.lua. */
#include "script/script.h"

int main(int argc, char **argv)
{
    return mt_script_main(argc, argv);
}
